// Folders and full disks for tests that touch files.
#pragma once

#include <doctest/doctest.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#include <csignal>
#include <cstddef>
#include <cstdlib>
#include <filesystem>
#include <iterator>
#include <string>

namespace ringlet {
/// A file below tests/, for example "oracles/bert".
std::string tests_file(const std::string& name);
}  // namespace ringlet

/// An empty folder that is removed at the end of the test.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "ringlet-XXXXXX").string();
    REQUIRE(::mkdtemp(name.data()) != nullptr);
    path_ = name;
  }
  ~TemporaryFolder() { std::filesystem::remove_all(path_); }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path operator/(const std::string& name) const { return path_ / name; }
  std::size_t entries() const {
    return static_cast<std::size_t>(std::distance(std::filesystem::directory_iterator(path_), {}));
  }

 private:
  std::filesystem::path path_;
};

/// Whether the file system of temporary folders has files without a name.
inline bool has_unnamed_files() {
  const int fd = ::open(std::filesystem::temp_directory_path().c_str(), O_WRONLY | O_TMPFILE, 0600);
  if (fd < 0) MESSAGE("skipped: needs a file system with files that have no name");
  if (fd >= 0) ::close(fd);
  return fd >= 0;
}

/// During its lifetime, no file of this process grows beyond `nbytes`: emulates a full disk.
class FullDisk {
 public:
  explicit FullDisk(rlim_t nbytes) : handler_(std::signal(SIGXFSZ, SIG_IGN)) {
    REQUIRE(::getrlimit(RLIMIT_FSIZE, &before_) == 0);
    const rlimit small{nbytes, before_.rlim_max};
    REQUIRE(::setrlimit(RLIMIT_FSIZE, &small) == 0);
  }
  ~FullDisk() {
    ::setrlimit(RLIMIT_FSIZE, &before_);
    std::signal(SIGXFSZ, handler_);
  }
  FullDisk(const FullDisk&) = delete;
  FullDisk& operator=(const FullDisk&) = delete;

 private:
  rlimit before_{};
  void (*handler_)(int);
};

/// The file `name` under $RINGLET_DATA; empty, with a message, if it is missing.
inline std::filesystem::path real_data(const std::string& name) {
  const char* root = std::getenv("RINGLET_DATA");
  if (root != nullptr) {
    const std::filesystem::path path = std::filesystem::path(root) / name;
    if (std::filesystem::exists(path)) return path;
  }
  MESSAGE("skipped: needs " << name << " under RINGLET_DATA");
  return {};
}
