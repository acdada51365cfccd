#include "ringlet/comm/launcher/output.h"

#include <unistd.h>

#include <array>
#include <cerrno>
#include <ostream>

#include "ringlet/core/base/error.h"

namespace ringlet::comm {
namespace {

constexpr std::size_t kLongestLine = 1 << 16;  // longer ones are broken
constexpr std::size_t kTailLines = 20;
constexpr std::string_view kError = "ringlet: ";
constexpr std::chrono::seconds kHeld{1};
constexpr int kReadsPerTurn = 16;  // so that no rank keeps the launcher to itself

}  // namespace

RankStream::RankStream(std::string prefix, std::ostream* screen, const std::filesystem::path& file,
                       std::ostream& warnings)
    : prefix_(std::move(prefix)), screen_(screen), warnings_(warnings), path_(file) {
  if (path_.empty()) return;
  std::error_code error;
  std::filesystem::create_directories(path_.parent_path(), error);
  file_.open(path_, std::ios::binary | std::ios::trunc);
  if (!file_) fail_input("--log-dir: cannot write ", path_.string());
}

bool RankStream::pump(int fd) {
  if (!error_.empty() && std::chrono::steady_clock::now() - error_at_ > kHeld) show_error();
  std::array<char, 1 << 14> buffer;
  bool open = true;
  for (int i = 0; i < kReadsPerTurn; ++i) {
    const ssize_t n = read(fd, buffer.data(), buffer.size());
    if (n < 0 && errno == EINTR) continue;
    open = n > 0 || (n < 0 && errno == EAGAIN);
    if (n <= 0) break;
    if (file_.is_open()) file_.write(buffer.data(), n);
    partial_.append(buffer.data(), static_cast<std::size_t>(n));
    std::size_t begin = 0;
    for (std::size_t end; (end = partial_.find('\n', begin)) != partial_.npos; begin = end + 1)
      pass_on(std::string_view(partial_).substr(begin, end - begin));
    partial_.erase(0, begin);
    if (partial_.size() > kLongestLine) finish();
  }
  if (file_.is_open() && !file_.flush()) {
    warnings_ << "ringlet: " << path_.string() << ": cannot write; it ends here" << std::endl;
    file_.close();
  }
  if (screen_ != nullptr) screen_->flush();
  return open;
}

void RankStream::finish() {
  if (!partial_.empty()) pass_on(partial_);
  partial_.clear();
}

void RankStream::show_error() {
  if (!error_.empty()) *screen_ << prefix_ << error_ << std::endl;
  error_.clear();
}

void RankStream::pass_on(std::string_view line) {
  show_error();
  if (screen_ != nullptr && line.starts_with(kError)) {
    error_ = line;
    error_at_ = std::chrono::steady_clock::now();
  } else if (screen_ != nullptr) {
    *screen_ << prefix_ << line << '\n';
  }
  tail_.emplace_back(line);
  if (tail_.size() > kTailLines) tail_.pop_front();
}

}  // namespace ringlet::comm
