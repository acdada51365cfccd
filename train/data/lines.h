// Lines of text, for files too large to be in memory.
#pragma once

#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "ringlet/core/base/error.h"
#include "ringlet/train/data/bytes.h"

namespace ringlet::train {

/// Lines of a source, without their "\n" or "\r\n"; a byte order mark at the start is dropped. A
/// file that is no text by its first bytes (check_kind) is InputError.
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

/// `text` without white space at both ends, as Python's str.strip() defines it: with Unicode spaces
/// and the separators 0x1c to 0x1f.
std::string_view strip(std::string_view text);

}  // namespace ringlet::train
