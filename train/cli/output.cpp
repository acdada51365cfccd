#include "ringlet/train/cli/output.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <fstream>
#include <string>
#include <system_error>
#include <thread>

#include "ringlet/comm/host.h"
#include "ringlet/core/base/error.h"
#include "ringlet/core/base/quote.h"
#include "ringlet/core/io/file.h"

namespace ringlet::cli {
namespace {

namespace fs = std::filesystem;

/// Files that other ranks try to write, and the lock.
constexpr std::string_view kOwnPrefix = ".ringlet-";

/// Makes a file that does not stay: permissions alone say little to root or on a read-only disk.
void try_file(std::string_view option, const fs::path& folder, const fs::path& wanted) {
  const fs::path probe = folder / str(kOwnPrefix, "probe");
  try {
    const AtomicFile file(probe);
  } catch (const InputError& error) {
    fail_input(option, ' ', wanted.string(),
               std::string_view(error.what()).substr(probe.string().size()));
  }
}

/// A path that is too long or not accessible may be a folder.
std::string why_no_folder(const std::error_code& error, const std::string& otherwise) {
  const bool absent = !error || error == std::errc::no_such_file_or_directory ||
                      error == std::errc::not_a_directory;
  return absent ? otherwise : str("cannot write: ", error.message());
}

}  // namespace

void check_writable_folder(std::string_view option, const fs::path& folder) {
  std::error_code error;
  fs::path existing = fs::absolute(folder, error);
  while (!fs::exists(existing, error) && existing.has_relative_path()) {
    if (error && error != std::errc::no_such_file_or_directory) break;
    existing = existing.parent_path();
  }
  if (!fs::is_directory(existing, error))
    fail_input(option, ' ', folder.string(), ": ",
               why_no_folder(error, str(existing.string(), " is no folder")));
  try_file(option, existing, folder);
}

void check_new_folder(std::string_view option, const fs::path& folder) {
  std::error_code error;
  if (fs::is_directory(folder, error))
    for (const fs::path& path : list_folder(folder))
      if (!path.filename().string().starts_with(kOwnPrefix))
        fail_input(option, ' ', folder.string(),
                   ": the folder is not empty; remove it, or name another");
  check_writable_folder(option, folder);
}

void check_output_file(std::string_view option, const fs::path& file,
                       std::initializer_list<std::pair<std::string_view, fs::path>> inputs) {
  std::error_code error;
  if (file.empty() || fs::is_directory(file, error))
    fail_input(option, " '", file.string(), "': expected the name of a file");
  const fs::path folder = fs::absolute(file, error).parent_path();
  if (!fs::is_directory(folder, error))
    fail_input(option, ' ', file.string(), ": ",
               why_no_folder(error, str("there is no folder ", folder.string())));
  try_file(option, folder, file);
  for (const auto& [reader, input] : inputs)  // a missing file is no input
    if (fs::equivalent(file, input == "-" ? fs::path("/dev/stdin") : input, error))
      fail_input(option, ' ', file.string(), ": ", reader, " reads this file");
}

// ---- one run at a time ------------------------------------------------------------------------

namespace {

using Clock = std::chrono::steady_clock;

/// The longest that the end of other runs, which remove the lock, is taken for the reason.
constexpr std::chrono::seconds kVanishing{1};

/// Another run that ended may have removed the file between open() and flock().
bool still_named(int fd, const fs::path& file) {
  struct stat opened {};
  struct stat named {};
  return ::fstat(fd, &opened) == 0 && ::stat(file.c_str(), &named) == 0 &&
         opened.st_ino == named.st_ino && opened.st_dev == named.st_dev;
}

}  // namespace

OutputLock::OutputLock(const fs::path& output, std::chrono::seconds patience)
    : output_(fs::absolute(output)) {
  if (!output_.has_filename()) output_ = output_.parent_path();
  file_ = output_ / kOutputLock;
  for (fs::path path = output_; !path_exists(path); path = path.parent_path())
    made_.push_back(path);
  const Clock::time_point deadline = Clock::now() + patience;
  for (Attempt attempt; (attempt = try_lock()) != Attempt::locked;) {
    // No other run holds a file that has vanished.
    if (attempt == Attempt::vanished && Clock::now() < deadline + kVanishing) continue;
    if (Clock::now() >= deadline) {
      std::string holder;
      std::getline(std::ifstream(file_), holder);
      fail_input("--output ", output.string(), ": another run writes to it",
                 holder.empty() ? "" : str(" (", shown(holder, 300), ")"));
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
}

OutputLock::Attempt OutputLock::try_lock() {
  make_folders(output_);
  const int fd = ::open(file_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (fd < 0) {
    if (errno == ENOENT) return Attempt::vanished;  // with its folder
    fail_input(file_.string(), ": cannot open: ", std::generic_category().message(errno));
  }
  const bool held = ::flock(fd, LOCK_EX | LOCK_NB) != 0;
  if (held && errno != EWOULDBLOCK && errno != EINTR) {
    fmt::print(stderr, "{}: cannot be locked ({}): nothing keeps another run out of it\n",
               output_.string(), std::generic_category().message(errno));
  } else if (held || !still_named(fd, file_)) {
    ::close(fd);
    return held ? Attempt::held : Attempt::vanished;
  } else {
    const std::string holder = str("process ", ::getpid(), " on ", comm::host_name());
    // For the message of a run that is refused alone.
    if (::ftruncate(fd, 0) == 0) static_cast<void>(::write(fd, holder.data(), holder.size()));
  }
  fd_ = fd;
  return Attempt::locked;
}

OutputLock::~OutputLock() {
  ::unlink(file_.c_str());
  ::close(fd_);
  for (const fs::path& folder : made_)
    if (::rmdir(folder.c_str()) != 0) break;
}

}  // namespace ringlet::cli
