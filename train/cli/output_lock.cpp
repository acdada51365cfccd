#include "ringlet/train/cli/output_lock.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <fstream>
#include <string>
#include <system_error>
#include <thread>

#include "ringlet/core/base/error.h"
#include "ringlet/core/base/quote.h"
#include "ringlet/core/io/file.h"

namespace ringlet::cli {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

/// The longest that the end of other runs, which remove the lock, is taken for the reason.
constexpr std::chrono::seconds kVanishing{1};

std::string this_process() {
  std::array<char, 256> host{};
  ::gethostname(host.data(), host.size() - 1);
  return str("process ", ::getpid(), " on ", host.data());
}

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
    const std::string holder = this_process();
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
