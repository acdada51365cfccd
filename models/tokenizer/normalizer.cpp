#include "ringlet/models/tokenizer/normalizer.h"

#include <openssl/evp.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "ringlet/core/base/error.h"
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
  std::string run;
  while (position < text.size()) {
    std::size_t after = position;
    const char32_t c = unicode::next(text, after);
    const bool dropped = clean_text && (unicode::is_control(c) || c == unicode::kReplacement);
    if (c < 0x80 && !dropped) break;
    position = after;
    if (dropped) continue;
    if (clean_text && unicode::is_whitespace(c)) {
      run += ' ';
    } else if (c == unicode::kNotDecomposed) {
      flush(run, out);
      unicode::append(c, out);
    } else {
      const bool apart = handle_chinese_chars && unicode::is_cjk(c);
      if (apart) run += ' ';
      unicode::append(c, run);
      if (apart) run += ' ';
    }
  }
  flush(run, out);
  return position;
}

void BertNormalizer::flush(std::string& run, std::string& out) const {
  if (strip_accents) run = unicode::without_accents(run);
  out += lowercase ? unicode::lower(run) : run;
  run.clear();
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

namespace {

constexpr std::size_t kLongestCluster = 5;  // bytes

/// Unset if `text` is not base64.
std::optional<std::string> decode_base64(std::string_view text) {
  std::string bytes(text.size() / 4 * 3, '\0');
  const int size = EVP_DecodeBlock(reinterpret_cast<unsigned char*>(bytes.data()),
                                   reinterpret_cast<const unsigned char*>(text.data()),
                                   static_cast<int>(text.size()));
  if (text.size() % 4 != 0 || size != static_cast<int>(bytes.size())) return std::nullopt;
  for (int padding = 0; padding < 2 && text.ends_with('='); ++padding) {
    text.remove_suffix(1);
    bytes.pop_back();
  }
  return text.find('=') == text.npos ? std::optional(bytes) : std::nullopt;
}

/// The little-endian u32 at `bytes`.
std::uint32_t load_u32(const char* bytes) {
  std::uint32_t value;
  std::memcpy(&value, bytes, sizeof(value));
  return value;
}

// The bits of a unit of Darts-clone's double array.
bool has_leaf(std::uint32_t unit) { return (unit >> 8 & 1) == 1; }
std::uint32_t value_of(std::uint32_t unit) { return unit & 0x7FFFFFFFu; }
std::uint32_t label_of(std::uint32_t unit) { return unit & 0x800000FFu; }
std::uint32_t offset_of(std::uint32_t unit) { return unit >> 10 << ((unit & 0x200u) >> 6); }

}  // namespace

Precompiled::Precompiled(std::string charsmap, std::string_view source)
    : charsmap_(std::move(charsmap)) {
  const std::optional<std::string> bytes = decode_base64(charsmap_);
  if (!bytes) fail_input(source, ": expected base64");
  const std::size_t size = bytes->size() < 4 ? 0 : load_u32(bytes->data());
  if (size == 0 || size % 4 != 0 || size > bytes->size() - 4)
    fail_input(source, ": expected the length of a trie and the trie, in ", bytes->size(),
               " bytes");
  for (std::size_t at = 4; at < 4 + size; at += 4) units_.push_back(load_u32(&(*bytes)[at]));
  replacements_ = bytes->substr(4 + size);
  if (!unicode::is_valid(replacements_)) fail_input(source, ": expected replacements in UTF-8");
}

std::optional<std::string_view> Precompiled::find(std::string_view text) const {
  std::size_t node = offset_of(units_[0]);
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    node ^= byte;
    if (byte == 0 || node >= units_.size() || label_of(units_[node]) != byte) return std::nullopt;
    const std::uint32_t unit = units_[node];
    node ^= offset_of(unit);
    if (!has_leaf(unit)) continue;
    if (node >= units_.size() || value_of(units_[node]) >= replacements_.size())
      return std::nullopt;
    const std::string_view rest = std::string_view(replacements_).substr(value_of(units_[node]));
    return rest.substr(0, rest.find('\0'));
  }
  return std::nullopt;
}

void Precompiled::normalize(std::string_view text, std::string& out) const {
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = unicode::cluster_end(text, begin);
    if (end - begin <= kLongestCluster) {
      if (const auto whole = find(text.substr(begin, end - begin))) {
        out += *whole;
        begin = end;
      }
    }
    while (begin < end) {
      const std::size_t start = begin;
      unicode::next(text, begin);
      const std::string_view character = text.substr(start, begin - start);
      out += find(character).value_or(character);
    }
  }
}

}  // namespace ringlet::models
