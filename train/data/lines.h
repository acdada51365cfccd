// Streams of bytes and lines, plain or compressed, for files too large to be in memory.
#pragma once

#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "ringlet/core/base/error.h"
#include "ringlet/train/data/byte_source.h"

namespace ringlet::train {

/// The bytes of a file; a gzip file and a file in a ZIP archive (zip.h) are unpacked. "-" is
/// standard input. A missing file, a `.gz` that is not gzip and a damaged or cut gzip file are
/// InputError. Kept inputs (kept_input.h) are not opened.
ByteSource open_bytes(const std::filesystem::path& path);
/// The bytes of `text`, which must outlive the source.
ByteSource bytes_of(std::string_view text);

/// Lines of a source, without their "\n" or "\r\n"; a byte order mark at the start is dropped. A
/// file that is no text by its first bytes (core/io/file_kind.h) is InputError.
class LineReader {
 public:
  /// `name` is the file in messages.
  LineReader(ByteSource source, std::string name);
  explicit LineReader(const std::filesystem::path& path);

  /// The next line, valid until the next call of next() or peek(); nullopt at the end.
  std::optional<std::string_view> next();
  /// The line that next() will return.
  std::optional<std::string_view> peek();
  /// True if the last line of next() ended in "\r\n".
  bool ended_in_crlf() const { return crlf_; }

  const std::string& name() const { return name_; }
  /// Number of the last line of next(), from 1.
  std::size_t line() const { return line_; }

  /// Throws InputError "NAME:LINE: …".
  template <class... Args>
  [[noreturn]] void fail_here(const Args&... args) const {
    fail_input(name_, ":", line_, ": ", args...);
  }

 private:
  std::size_t find_line_end();
  bool refill();

  ByteSource source_;
  std::string name_;
  std::string buffer_;
  std::size_t begin_ = 0;  // of the next line in buffer_
  std::size_t end_ = 0;    // of the bytes read into buffer_
  std::size_t line_ = 0;
  bool exhausted_ = false;
  bool crlf_ = false;
};

}  // namespace ringlet::train
