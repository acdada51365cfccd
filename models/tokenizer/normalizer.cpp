#include "ringlet/models/tokenizer/normalizer.h"

#include <algorithm>

#include "ringlet/models/tokenizer/unicode.h"

namespace ringlet::models {
namespace {

bool is_ascii(char c) { return static_cast<unsigned char>(c) < 0x80; }

}  // namespace

void BertNormalizer::normalize(std::string_view text, std::string& out) const {
  out.reserve(out.size() + text.size());
  for (std::size_t position = 0; position < text.size();) {
    if (is_ascii(text[position])) {
      normalize_ascii(text[position++], out);
    } else {
      position = normalize_run(text, position, out);
    }
  }
}

void BertNormalizer::normalize_ascii(char c, std::string& out) const {
  if (lowercase && c >= 'A' && c <= 'Z') {
    c = static_cast<char>(c + ('a' - 'A'));
  } else if (clean_text && (c < ' ' || c == 0x7F)) {
    if (c != '\t' && c != '\n' && c != '\r') return;
    c = ' ';
  }
  out.push_back(c);
}

/// Normalizes up to the next ASCII character that is kept, exclusively. These neither combine nor
/// decompose, so the text between two of them can be normalized alone.
std::size_t BertNormalizer::normalize_run(std::string_view text, std::size_t position,
                                          std::string& out) const {
  std::u32string run;
  while (position < text.size()) {
    std::size_t after = position;
    const char32_t c = unicode::next(text, after);
    const bool dropped = clean_text && (unicode::is_control(c) || c == unicode::kReplacement);
    if (c < 0x80 && !dropped) break;
    position = after;
    if (dropped) continue;
    if (clean_text && unicode::is_whitespace(c)) {
      run.push_back(U' ');
    } else if (handle_chinese_chars && unicode::is_cjk(c)) {
      run.append({U' ', c, U' '});
    } else {
      run.push_back(c);
    }
  }
  flush(run, out);
  return position;
}

void BertNormalizer::flush(std::u32string& run, std::string& out) const {
  if (strip_accents) {
    std::u32string decomposed;
    for (const char32_t c : run) unicode::append_decomposed(c, decomposed);
    unicode::order_combining(decomposed);
    std::erase_if(decomposed, unicode::is_nonspacing_mark);
    run.swap(decomposed);
  }
  for (const char32_t c : run) {
    lowercase ? unicode::append_lower(c, out) : unicode::append(c, out);
  }
}

void Strip::normalize(std::string_view text, std::string& out) const {
  std::size_t begin = 0, end = text.size();
  if (left) begin = unicode::skip_whitespace(text, begin);
  if (right) end = std::max(begin, unicode::skip_whitespace_before(text, end));
  out += text.substr(begin, end - begin);
}

void Replace::normalize(std::string_view text, std::string& out) const {
  for (std::size_t i = 0; i < text.size();) {
    std::size_t end = i, count = 0;
    while (text.substr(end).starts_with(pattern) && (count == 0 || least_run > 0)) {
      end += pattern.size();
      ++count;
    }
    if (count > 0 && count >= least_run) {
      out += content;
    } else {
      end = std::max(end, i + 1);
      out += text.substr(i, end - i);
    }
    i = end;
  }
}

void NormalizerSequence::normalize(std::string_view text, std::string& out) const {
  std::string current = unicode::valid(text), next;
  for (const auto& step : steps) {
    next.clear();
    std::visit([&](const auto& s) { s.normalize(current, next); }, step);
    current.swap(next);
  }
  out += current;
}

}  // namespace ringlet::models
