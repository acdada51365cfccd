#include "ringlet/train/cli/drill_saving.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>
#include <algorithm>
#include <csignal>
#include <string>

#include "ringlet/core/error.h"
#include "ringlet/core/file.h"

namespace ringlet::cli {
namespace {

std::string killed_at;  // for the handler

// The kernel says so in the thread that writes, in the middle of it.
void die(int) {
  ::close(::open(killed_at.c_str(), O_CREAT | O_WRONLY, 0600));
  std::raise(SIGKILL);
}

/// Whether a checkpoint under construction in `output` has its files.
bool files_are_made(const std::filesystem::path& output) {
  const std::vector<std::filesystem::path> paths = list_folder(output);
  return std::any_of(paths.begin(), paths.end(), [](const std::filesystem::path& path) {
    return path.filename().string().starts_with(".checkpoint-") &&
           path_exists(path / "optimizer.safetensors");
  });
}

}  // namespace

bool fails_making(int culprit, double point) { return culprit == 0 && point < 0.5; }

void SavingFault::arm(std::size_t begin, std::size_t end) {
  const bool making = fails_making(culprit_, point_);
  double point = point_;
  if (culprit_ == 0) point = making ? 2 * point : 2 * point - 1;
  limit_ = begin + static_cast<std::size_t>(point * static_cast<double>(end - begin));
  if (making) return strike();
  armed_ = true;
}

int SavingFault::sync() {
  if (armed_ && files_are_made(folder_ / "run") && armed_.exchange(false)) strike();
  return 0;
}

// This process can no longer write to any file beyond the limit, as on a full disk. Other processes
// are not affected.
void SavingFault::strike() const {
  killed_at = (folder_ / "killed_at").string();
  std::signal(SIGXFSZ, kills_ ? die : SIG_IGN);
  const rlimit limit{limit_, RLIM_INFINITY};
  RINGLET_CHECK(setrlimit(RLIMIT_FSIZE, &limit) == 0, "[drill] cannot limit the size of files");
}

}  // namespace ringlet::cli
