// One run at a time writes to an output folder.
#pragma once

#include <chrono>
#include <filesystem>
#include <vector>

namespace ringlet::cli {

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
