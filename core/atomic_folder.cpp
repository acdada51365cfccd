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
  const bool synced = fd >= 0 && fsync(fd) == 0;
  const int error = errno;
  if (fd >= 0) close(fd);
  if (!synced) fail_input(path.string(), ": cannot sync: ", std::strerror(error));
}

}  // namespace

AtomicFolder::AtomicFolder(fs::path target) : target_(std::move(target)) {
  if (!target_.has_filename()) target_ = target_.parent_path();
  if (fs::exists(target_) && !fs::is_directory(target_))
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
  const bool swap = fs::exists(target_);
  if (renameat2(AT_FDCWD, temporary_.c_str(), AT_FDCWD, target_.c_str(),
                swap ? RENAME_EXCHANGE : RENAME_NOREPLACE) != 0)
    fail_input(target_.string(), ": cannot be put in place: ", std::strerror(errno));
  // After a swap the temporary name holds the older folder.
  if (swap) fs::remove_all(temporary_);
  temporary_.clear();
  sync(target_.has_parent_path() ? target_.parent_path() : fs::path("."));
}

}  // namespace ringlet
