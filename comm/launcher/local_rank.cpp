#include "ringlet/comm/launcher/local_rank.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <ostream>

#include "ringlet/comm/launcher/cores.h"
#include "ringlet/core/base/error.h"

namespace ringlet::comm {
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

std::vector<LocalRank> start_ranks(const LauncherOptions& options, const Attempt& attempt,
                                   std::ostream& out, std::ostream& err) {
  const auto n = static_cast<std::size_t>(options.nproc_per_node);
  std::vector<std::vector<int>> processors(n);
  if (options.pin) processors = share_cores(options.nproc_per_node);
  std::vector<LocalRank> ranks;
  ranks.reserve(n);
  for (std::size_t i = 0; i < n; ++i) {
    const int local_rank = static_cast<int>(i);
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
    ranks.push_back({rank,
                     Process({.command = options.command,
                              .environment = rank_environment(options, attempt, local_rank,
                                                              !processors[i].empty()),
                              .processors = processors[i],
                              .input = rank == 0 && isatty(STDIN_FILENO) == 0}),
                     std::move(its_out), std::move(its_err)});
  }
  return ranks;
}

int report_failure(const Failure& failure, std::vector<LocalRank>& ranks, std::ostream& err) {
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
