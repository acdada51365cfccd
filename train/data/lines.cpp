#include "ringlet/train/data/lines.h"

#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <memory>
#include <system_error>
#include <utility>

#include "ringlet/core/io/file_kind.h"
#include "ringlet/train/data/kept_input.h"
#include "ringlet/train/data/zip.h"

namespace ringlet::train {
namespace {

constexpr std::size_t kBlockBytes = std::size_t{1} << 16;
static_assert(kKindBytes <= kBlockBytes);
constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";

struct CloseGzip {
  void operator()(gzFile file) const { gzclose_r(file); }
};
using GzipFile = std::unique_ptr<gzFile_s, CloseGzip>;

std::string reason(int error) { return std::generic_category().message(error); }

std::string name_of(const std::filesystem::path& path) {
  return path == "-" ? kStandardInput : path.string();
}

std::size_t read_gzip(gzFile file, const std::string& name, std::span<char> into) {
  const auto wanted = static_cast<unsigned>(std::min(into.size(), kBlockBytes));
  errno = 0;
  const int count = gzread(file, into.data(), wanted);
  int error = Z_OK;
  const char* message = gzerror(file, &error);
  if (error == Z_ERRNO) fail_input(name, ": cannot read: ", reason(errno));
  if (count < 0 || error == Z_BUF_ERROR) fail_input(name, ": damaged gzip file: ", message);
  return static_cast<std::size_t>(count);
}

GzipFile open_gzip(const std::filesystem::path& path) {
  struct stat status {};
  if (::stat(path.c_str(), &status) == 0 && S_ISDIR(status.st_mode)) {
    fail_input(path.string(), ": expected a file, found a folder");
  }
  errno = 0;
  GzipFile file(path == "-" ? gzdopen(::dup(STDIN_FILENO), "rb") : gzopen(path.c_str(), "rb"));
  if (!file) fail_input(name_of(path), ": cannot open: ", reason(errno ? errno : ENOMEM));
  gzbuffer(file.get(), kBlockBytes);
  if (path.extension() == ".gz" && gzdirect(file.get())) {
    std::array<char, kKindBytes> head;
    check_kind({head.data(), read_gzip(file.get(), path.string(), head)}, path.string());
    fail_input(path.string(), ": expected a gzip file");
  }
  return file;
}

}  // namespace

ByteSource open_bytes(const std::filesystem::path& path) {
  if (const std::string* kept = kept_input(path)) return bytes_of(*kept);
  if (const auto member = zip_member(path)) return open_zip(*member);
  // std::function copies what it holds, so the handle is shared.
  std::shared_ptr<gzFile_s> file = open_gzip(path);
  return [file, name = name_of(path)](std::span<char> into) {
    return read_gzip(file.get(), name, into);
  };
}

ByteSource bytes_of(std::string_view text) {
  return [text](std::span<char> into) mutable {
    const std::size_t count = text.copy(into.data(), into.size());
    text.remove_prefix(count);
    return count;
  };
}

LineReader::LineReader(ByteSource source, std::string name)
    : source_(std::move(source)), name_(std::move(name)) {
  while (end_ < kKindBytes && refill()) {
  }
  const std::string_view head = std::string_view(buffer_).substr(0, end_);
  check_kind(head, name_);
  if (head.starts_with(kByteOrderMark)) begin_ = kByteOrderMark.size();
}

LineReader::LineReader(const std::filesystem::path& path)
    : LineReader(open_bytes(path), name_of(path)) {}

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

}  // namespace ringlet::train
