#include "ringlet/core/atomic_folder.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "ringlet/core/error.h"

namespace ringlet {
namespace fs = std::filesystem;
namespace {

void sync(const fs::path& path) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  // Some file systems cannot sync folders; that is no error.
  const bool synced = fd >= 0 && (fsync(fd) == 0 || errno == EINVAL);
  const int error = errno;
  if (fd >= 0) close(fd);
  if (!synced) fail_input(path.string(), ": cannot sync: ", std::strerror(error));
}

}  // namespace

AtomicFolder::AtomicFolder(fs::path target) : target_(std::move(target)) {
  if (!target_.has_filename()) target_ = target_.parent_path();
  std::error_code ignored;
  if (fs::exists(target_, ignored) && !fs::is_directory(target_, ignored))
    fail_input(target_.string(), ": expected a folder, found a file");
  const fs::path parent = target_.has_parent_path() ? target_.parent_path() : fs::path(".");
  std::string name = (parent / concat('.', target_.filename().string(), ".XXXXXX")).string();
  if (!mkdtemp(name.data()))
    fail_input(target_.string(), ": cannot create a folder in ", parent.string(), ": ",
               std::strerror(errno));
  chmod(name.c_str(), 0755);
  temporary_ = name;
}

AtomicFolder::~AtomicFolder() {
  std::error_code ignored;
  if (!temporary_.empty()) fs::remove_all(temporary_, ignored);
}

void AtomicFolder::commit() {
  for (const auto& entry : fs::recursive_directory_iterator(temporary_)) sync(entry.path());
  sync(temporary_);
  std::error_code error;
  const bool swap = fs::exists(target_, error);
  if (renameat2(AT_FDCWD, temporary_.c_str(), AT_FDCWD, target_.c_str(),
                swap ? RENAME_EXCHANGE : RENAME_NOREPLACE) != 0) {
    // Network file systems do not know these flags: then there is a moment without a target.
    if (errno != EINVAL && errno != ENOSYS)
      fail_input(target_.string(), ": cannot be put in place: ", std::strerror(errno));
    fs::remove_all(target_, error);
    fs::rename(temporary_, target_, error);
    if (error) fail_input(target_.string(), ": cannot be put in place: ", error.message());
  } else if (swap) {
    fs::remove_all(temporary_, error);  // the older folder, under that name since the swap
  }
  temporary_.clear();
  sync(target_.has_parent_path() ? target_.parent_path() : fs::path("."));
}

}  // namespace ringlet
