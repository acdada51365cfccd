#include "ringlet/comm/launcher/local_rank.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <map>
#include <ostream>

#include "ringlet/comm/launcher/cores.h"
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

namespace {

/// torchrun's variables, and those that init_from_env() reads.
std::map<std::string, std::string> rank_environment(const LauncherOptions& options,
                                                    const Attempt& attempt, int local_rank,
                                                    bool pinned) {
  const auto text = [](int number) { return std::to_string(number); };
  const int ranks = options.nproc_per_node;
  const std::string rank = text(options.node_rank * ranks + local_rank);
  const std::string world = text(options.nnodes * ranks), port = text(attempt.port);
  std::map<std::string, std::string> variables{
      {"RANK", rank},
      {"LOCAL_RANK", text(local_rank)},
      {"WORLD_SIZE", world},
      {"LOCAL_WORLD_SIZE", text(ranks)},
      {"GROUP_RANK", text(options.node_rank)},
      {"GROUP_WORLD_SIZE", text(options.nnodes)},
      {"ROLE_RANK", rank},
      {"ROLE_WORLD_SIZE", world},
      {"ROLE_NAME", "default"},
      {"MASTER_ADDR", options.master_addr},
      {"MASTER_PORT", port},
      {"TORCHELASTIC_RESTART_COUNT", text(attempt.number)},
      {"TORCHELASTIC_MAX_RESTARTS", text(options.max_restarts)},
      {"TORCHELASTIC_RUN_ID", options.run_id},
      {"RINGLET_PORT", port},
      // Empty rather than unset: hides that of an outer launcher.
      {"RINGLET_LAUNCHER", options.nnodes == 1 ? "1" : ""},
      {"RINGLET_JOINS", attempt.joins ? "1" : ""},
      {"RINGLET_GRACE", text(static_cast<int>(options.grace.count()))},
      {"RINGLET_RANKS_AT_START", options.min_ranks > 0 ? text(attempt.ranks_at_start) : ""},
      {kPinned, pinned ? "1" : ""},
  };
  if (!attempt.token.empty()) variables["RINGLET_TOKEN"] = attempt.token;
  return variables;
}

void drain(Socket& from, RankStream& to) {
  if (from && !to.pump(from.fd())) from.close();
}

/// "rank 12 (pid …" -> 12
std::optional<int> rank_named_first(const std::string& text) {
  constexpr std::string_view kRank = "rank ";
  if (!text.starts_with(kRank)) return std::nullopt;
  return std::atoi(text.c_str() + kRank.size());
}

void print_tail(const LocalRank& rank, std::ostream& err) {
  const auto& lines = rank.err.tail().empty() ? rank.out.tail() : rank.err.tail();
  if (lines.empty()) return;
  err << "ringlet: the last lines of rank " << rank.rank << ":\n";
  for (const std::string& line : lines) err << "  " << line << '\n';
}

}  // namespace

bool LocalRank::attend() {
  const auto drain_both = [this] {
    drain(process.out(), out);
    drain(process.err(), err);
  };
  drain_both();
  if (exit_code || !(exit_code = process.exit_code())) return false;
  drain_both();  // its last output
  out.finish();
  err.finish();
  return true;
}

LocalRank start_rank(const LauncherOptions& options, const Attempt& attempt, int local_rank,
                     std::ostream& out, std::ostream& err) {
  const auto i = static_cast<std::size_t>(local_rank);
  const std::vector<int>& processors = attempt.processors[i];
  const int rank = options.node_rank * options.nproc_per_node + local_rank;
  const std::string prefix =
      options.nnodes * options.nproc_per_node > 1 ? str('[', rank, "] ") : "";
  const bool files = !options.log_dir.empty();
  const Streams shown = !files                   ? Streams{true, true}
                        : i < options.tee.size() ? options.tee[i]
                                                 : Streams{};
  const auto folder = options.log_dir / str("attempt_", attempt.number) / str("rank_", rank);
  const auto stream = [&](bool show, std::ostream& to, const char* file) {
    return RankStream(prefix, show ? &to : nullptr, files ? folder / file : "", err);
  };
  RankStream its_out = stream(shown.out, out, "stdout.log");
  RankStream its_err = stream(shown.err, err, "stderr.log");
  return {
      rank,
      Process({.command = options.command,
               .environment = rank_environment(options, attempt, local_rank, !processors.empty()),
               .processors = processors,
               .input = rank == 0 && isatty(STDIN_FILENO) == 0}),
      std::move(its_out), std::move(its_err)};
}

int report_failure(const Failure& failure, std::list<LocalRank>& ranks, std::ostream& err) {
  const std::optional<int> culprit = rank_named_first(failure.culprit);
  const std::optional<int> named = rank_named_first(failure.cause);
  const std::optional<int> root = culprit ? culprit : named;  // nothing if no rank is to blame
  const auto found = std::ranges::find_if(ranks, [&](const auto& one) { return one.rank == root; });
  const LocalRank* here = found == ranks.end() ? nullptr : &*found;
  // The rank refused its input and the screen shows why.
  const std::string refusal = here != nullptr && here->exit_code == 2 ? here->err.error() : "";
  for (LocalRank& rank : ranks) {
    const std::string& error = rank.err.error();
    const bool echo = !refusal.empty() && &rank != here &&
                      (error == refusal || error.starts_with("ringlet: " + failure.cause));
    rank.out.show_error();
    if (!echo) rank.err.show_error();
  }
  err << "ringlet: first to fail: ";
  if (root && root != named) err << "rank " << *root << ": ";
  err << failure.cause;
  if (here != nullptr && culprit) err << "; it " << here->process.how_it_ended();
  std::string done;  // its peers may have failed because these were missing
  for (const int rank : failure.done)
    if (rank != root) done += str(done.empty() ? "; had exited with code 0: rank " : ", ", rank);
  err << done << '\n';
  if (here != nullptr && refusal.empty()) print_tail(*here, err);
  err.flush();
  return here != nullptr && *here->exit_code != 0 ? *here->exit_code : 1;
}

}  // namespace ringlet::comm
