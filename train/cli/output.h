// Output paths: checks made before anything is read or written, and one run at a time in a folder.
#pragma once

#include <chrono>
#include <filesystem>
#include <initializer_list>
#include <string_view>
#include <utility>
#include <vector>

namespace ringlet::cli {

/// A file can be created in `folder`, or in the nearest folder above it that exists. InputError
/// that begins with `option` otherwise.
void check_writable_folder(std::string_view option, const std::filesystem::path& folder);
/// `folder` is writable and does not exist or is empty, but for ringlet's own hidden files.
void check_new_folder(std::string_view option, const std::filesystem::path& folder);
/// `file` is no folder, and its folder exists and is writable. It is none of the inputs, each with
/// its option; "-" is standard input.
void check_output_file(
    std::string_view option, const std::filesystem::path& file,
    std::initializer_list<std::pair<std::string_view, std::filesystem::path>> inputs = {});

/// In OUTPUT while a run writes there.
inline constexpr const char* kOutputLock = ".ringlet-lock";

/// An exclusive flock() of OUTPUT/.ringlet-lock, shared by the processes that this one forks. The
/// kernel releases it when the last of them has ended, so a run that was killed leaves none.
class OutputLock {
 public:
  /// Makes the folder if it is missing. InputError that names it where another run still holds the
  /// lock after `patience`. Where the file system has no locks a line on stderr says so.
  OutputLock(const std::filesystem::path& output, std::chrono::seconds patience);
  /// Removes the file, and the folders that the constructor made if nothing else is in them.
  ~OutputLock();
  OutputLock(const OutputLock&) = delete;
  OutputLock& operator=(const OutputLock&) = delete;

 private:
  enum class Attempt { locked, held, vanished };
  Attempt try_lock();

  std::filesystem::path output_, file_;
  std::vector<std::filesystem::path> made_;  // folders, the innermost first
  int fd_ = -1;
};

}  // namespace ringlet::cli
