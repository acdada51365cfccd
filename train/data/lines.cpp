#include "ringlet/train/data/lines.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "ringlet/core/io/file.h"
#include "ringlet/models/tokenizer/unicode.h"

namespace ringlet::train {
namespace {

namespace unicode = models::unicode;

constexpr std::size_t kBlockBytes = std::size_t{1} << 16;
static_assert(kKindBytes <= kBlockBytes);
constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";

/// The code points for which Python's str.isspace() holds.
bool is_space(char32_t c) { return unicode::is_whitespace(c) || (c >= 0x1C && c <= 0x1F); }

}  // namespace

LineReader::LineReader(ByteSource source, std::string name)
    : source_(std::move(source)), name_(std::move(name)) {
  while (end_ < kKindBytes && refill()) {
  }
  const std::string_view head = std::string_view(buffer_).substr(0, end_);
  check_kind(head, name_);
  if (head.starts_with(kByteOrderMark)) begin_ = kByteOrderMark.size();
}

LineReader::LineReader(const std::filesystem::path& path)
    : LineReader(open_bytes(path), input_name(path)) {}

/// Makes room after the bytes of the unfinished line and reads once. False at the end.
bool LineReader::refill() {
  if (exhausted_) return false;
  if (begin_ > 0) {
    std::memmove(buffer_.data(), buffer_.data() + begin_, end_ - begin_);
    end_ -= begin_;
    begin_ = 0;
  }
  if (end_ == buffer_.size()) buffer_.resize(std::max(kBlockBytes, 2 * end_));
  const std::size_t count = source_(std::span(buffer_).subspan(end_));
  end_ += count;
  exhausted_ = count == 0;
  return !exhausted_;
}

/// Position of the "\n" of the next line, or end_ for a last line without one.
std::size_t LineReader::find_line_end() {
  std::size_t searched = 0;  // from begin_, which refill moves
  while (true) {
    const void* found =
        std::memchr(buffer_.data() + begin_ + searched, '\n', end_ - begin_ - searched);
    if (found) return static_cast<std::size_t>(static_cast<const char*>(found) - buffer_.data());
    searched = end_ - begin_;
    if (!refill()) return end_;
  }
}

std::optional<std::string_view> LineReader::peek() {
  const std::size_t end = find_line_end();
  if (begin_ == end_) return std::nullopt;
  std::string_view line(buffer_.data() + begin_, end - begin_);
  if (end < end_ && line.ends_with('\r')) line.remove_suffix(1);
  return line;
}

std::optional<std::string_view> LineReader::next() {
  const std::optional<std::string_view> line = peek();
  if (!line) return std::nullopt;
  ++line_;
  const std::size_t length = line->size();
  crlf_ = begin_ + length < end_ && buffer_[begin_ + length] == '\r';
  begin_ = std::min(end_, begin_ + length + (crlf_ ? 2 : 1));
  return line;
}

std::string_view strip(std::string_view text) {
  for (std::size_t next = 0; !text.empty() && is_space(unicode::next(text, next)); next = 0)
    text.remove_prefix(next);
  for (std::size_t last = text.size(); last > 0 && is_space(unicode::previous(text, last));)
    text = text.substr(0, last);
  return text;
}

}  // namespace ringlet::train
