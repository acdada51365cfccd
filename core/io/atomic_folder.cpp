#include "ringlet/core/io/atomic_folder.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <string_view>
#include <utility>

#include "ringlet/core/base/error.h"
#include "ringlet/core/io/file.h"

namespace ringlet {
namespace fs = std::filesystem;
namespace {

void sync(const fs::path& path) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  // Some file systems cannot sync folders (EINVAL); this is not an error.
  const bool synced = fd >= 0 && (fsync(fd) == 0 || errno == EINVAL);
  const int error = errno;
  if (fd >= 0) close(fd);
  if (!synced) fail_input(path.string(), ": cannot sync: ", std::strerror(error));
}

constexpr std::string_view kPushedOut = ".old";

/// Removes a last part ".NUMBER" of a name; false without one.
bool remove_number(std::string& name) {
  const std::size_t dot = name.find_last_not_of("0123456789");
  if (dot == name.npos || name[dot] != '.' || dot + 1 == name.size()) return false;
  name.resize(dot);
  return true;
}

/// "NAME" of ".NAME.XXXXXX", the temporary name of an AtomicFolder; empty for any other name.
std::string target_of_folder(const std::string& name) {
  constexpr std::size_t kRandom = 7;  // ".XXXXXX"
  if (name.size() < kRandom + 2 || name[0] != '.') return "";
  const std::string end = name.substr(name.size() - kRandom);
  const bool fits = end[0] == '.' && std::all_of(end.begin() + 1, end.end(), [](char c) {
                      return std::isalnum(static_cast<unsigned char>(c));
                    });
  return fits ? name.substr(1, name.size() - kRandom - 1) : "";
}

/// "NAME" of "NAME.tmp.PROCESS.NUMBER", the temporary name of an AtomicFile; empty for any other.
std::string target_of_file(std::string name) {
  constexpr std::string_view kMark = ".tmp";
  const bool fits = remove_number(name) && remove_number(name) && name.ends_with(kMark);
  return fits ? name.substr(0, name.size() - kMark.size()) : "";
}

/// The name of the older folder while `temporary` (".NAME.XXXXXX") takes its place.
fs::path pushed_out(const fs::path& temporary) {
  const std::string name = temporary.filename().string();
  const std::size_t dot = name.rfind('.');
  return temporary.parent_path() / str(name.substr(0, dot), kPushedOut, name.substr(dot));
}

/// The original name of an older folder, given its target_of_folder(); empty for any other folder.
std::string pushed_out_from(const std::string& name) {
  return name.ends_with(kPushedOut) ? name.substr(0, name.size() - kPushedOut.size()) : "";
}

}  // namespace

AtomicFolder::AtomicFolder(fs::path target) : target_(std::move(target)) {
  if (!target_.has_filename()) target_ = target_.parent_path();
  std::error_code ignored;
  if (fs::exists(target_, ignored) && !fs::is_directory(target_, ignored))
    fail_input(target_.string(), ": expected a folder, found a file");
  const fs::path parent = target_.has_parent_path() ? target_.parent_path() : fs::path(".");
  std::string name = (parent / str('.', target_.filename().string(), ".XXXXXX")).string();
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
    // Network file systems refuse these flags: replace() leaves a moment without a target.
    if (errno != EINVAL && errno != ENOSYS)
      fail_input(target_.string(), ": cannot be put in place: ", std::strerror(errno));
    replace(swap);
  } else if (swap) {
    fs::remove_all(temporary_, error);  // since the swap, the older folder has that name
  }
  temporary_.clear();
  sync(target_.has_parent_path() ? target_.parent_path() : fs::path("."));
}

void AtomicFolder::replace(bool is_there) {
  const fs::path old = pushed_out(temporary_);
  std::error_code error, ignored;
  if (is_there) fs::rename(target_, old, error);
  if (error) fail_input(target_.string(), ": cannot be put in place: ", error.message());
  fs::rename(temporary_, target_, error);
  if (!error) {
    // A network file system keeps open files under other names; remove_unfinished() removes them.
    fs::remove_all(old, ignored);
    return;
  }
  if (is_there) fs::rename(old, target_, ignored);
  if (!ignored) fail_input(target_.string(), ": cannot be put in place: ", error.message());
  const fs::path kept = std::exchange(temporary_, {});
  fail_input(target_.string(), ": cannot be put in place: ", error.message(), "; the folder is at ",
             kept.string(), ", the older one at ", old.string());
}

void remove_unfinished(const fs::path& parent,
                       const std::function<bool(const std::string& name)>& is_target) {
  for (const fs::path& path : list_folder(parent)) {
    const fs::file_status status = fs::symlink_status(path);
    const std::string name = path.filename().string();
    const std::string target = fs::is_directory(status)      ? target_of_folder(name)
                               : fs::is_regular_file(status) ? target_of_file(name)
                                                             : "";
    if (!target.empty() && is_target(target)) remove_path(path);
    const std::string was = fs::is_directory(status) ? pushed_out_from(target) : "";
    if (was.empty() || !is_target(was)) continue;
    std::error_code error;
    if (fs::exists(parent / was))
      remove_path(path);
    else  // the process ended before a new folder took its place
      fs::rename(path, parent / was, error);
    if (error) fail_input(path.string(), ": cannot be put back: ", error.message());
  }
}

}  // namespace ringlet
