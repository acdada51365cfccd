// The ranks' output: to the screen, each line with its rank before it, and to one file each.
#pragma once

#include <chrono>
#include <deque>
#include <filesystem>
#include <fstream>
#include <iosfwd>
#include <string>
#include <string_view>

namespace ringlet::comm {

/// One output stream of one rank, read from a pipe without blocking.
class RankStream {
 public:
  /// `screen` and `file` may be null and empty. InputError if the file cannot be written. If its
  /// disk is full later, a line to `warnings` reports it and the rank continues without the file.
  RankStream(std::string prefix, std::ostream* screen, const std::filesystem::path& file,
             std::ostream& warnings);

  /// Passes on the available output; false at its end.
  bool pump(int fd);
  /// Passes on a last line that has no newline.
  void finish();
  /// The error that ended a ringlet program: a last line "ringlet: …", held back for show_error().
  /// A program that runs on gets it shown after kHeld. Empty without such a line or a screen.
  const std::string& error() const { return error_; }
  void show_error();
  /// The last lines, oldest first.
  const std::deque<std::string>& tail() const { return tail_; }

 private:
  void pass_on(std::string_view line);

  std::string prefix_;
  std::ostream* screen_;
  std::ostream& warnings_;
  std::filesystem::path path_;
  std::ofstream file_;
  std::string partial_;
  std::string error_;
  std::chrono::steady_clock::time_point error_at_;
  std::deque<std::string> tail_;
};

}  // namespace ringlet::comm
