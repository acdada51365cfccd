#include "ringlet/comm/launcher/local_ranks.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <map>

#include "ringlet/comm/launcher/cores.h"
#include "ringlet/core/error.h"

namespace ringlet::comm {
namespace {

/// torchrun's variables, and those that init_from_env() reads.
std::map<std::string, std::string> rank_environment(const LauncherOptions& options,
                                                    const Nodes& nodes, int attempt, int local_rank,
                                                    bool pinned) {
  const auto text = [](int number) { return std::to_string(number); };
  const std::string rank = text(nodes.first_rank() + local_rank);
  const std::string world = text(nodes.world_size());
  std::map<std::string, std::string> variables{
      {"RANK", rank},
      {"LOCAL_RANK", text(local_rank)},
      {"WORLD_SIZE", world},
      {"LOCAL_WORLD_SIZE", text(options.nproc_per_node)},
      {"GROUP_RANK", text(nodes.node_rank())},
      {"GROUP_WORLD_SIZE", text(options.nnodes)},
      {"ROLE_RANK", rank},
      {"ROLE_WORLD_SIZE", world},
      {"ROLE_NAME", "default"},
      {"MASTER_ADDR", options.master_addr},
      {"MASTER_PORT", text(nodes.port())},
      {"TORCHELASTIC_RESTART_COUNT", text(attempt)},
      {"TORCHELASTIC_MAX_RESTARTS", text(options.max_restarts)},
      {"TORCHELASTIC_RUN_ID", options.run_id},
      {"RINGLET_PORT", text(nodes.port())},
      {"RINGLET_LAUNCHER", "1"},
  };
  // Empty rather than unset: hides the value of an outer launcher.
  variables[kPinned] = pinned ? "1" : "";
  if (!nodes.new_token().empty()) variables["RINGLET_TOKEN"] = nodes.new_token();
  return variables;
}

void drain(LocalRank& rank) {
  if (rank.out_open) rank.out_open = rank.out.pump(rank.process.out().fd());
  if (rank.err_open) rank.err_open = rank.err.pump(rank.process.err().fd());
}

}  // namespace

LocalRanks::LocalRanks(const LauncherOptions& options, const Nodes& nodes, int attempt,
                       Screen screen) {
  const auto n = static_cast<std::size_t>(options.nproc_per_node);
  std::vector<std::vector<int>> processors(n);
  if (options.pin) processors = share_cores(options.nproc_per_node);
  ranks_.reserve(n);
  for (std::size_t i = 0; i < n; ++i) {
    const int local_rank = static_cast<int>(i), rank = nodes.first_rank() + local_rank;
    const std::string prefix = nodes.world_size() > 1 ? str('[', rank, "] ") : "";
    const bool files = !options.log_dir.empty();
    const Streams shown = !files                   ? Streams{true, true}
                          : i < options.tee.size() ? options.tee[i]
                                                   : Streams{};
    const auto folder = options.log_dir / str("attempt_", attempt) / str("rank_", rank);
    const auto stream = [&](bool show, std::ostream& to, const char* file) {
      return RankStream(prefix, show ? &to : nullptr, files ? folder / file : "", screen.err);
    };
    RankStream out = stream(shown.out, screen.out, "stdout.log");
    RankStream err = stream(shown.err, screen.err, "stderr.log");
    ranks_.push_back({rank,
                      Process({.command = options.command,
                               .environment = rank_environment(options, nodes, attempt, local_rank,
                                                               !processors[i].empty()),
                               .processors = processors[i],
                               .input = rank == 0 && isatty(STDIN_FILENO) == 0}),
                      std::move(out), std::move(err)});
  }
}

void LocalRanks::wait(const Signals& signals, int milliseconds) const {
  std::vector<pollfd> polled{{signals.fd().fd(), POLLIN, 0}};
  for (const LocalRank& rank : ranks_) {
    if (!rank.exit_code) polled.push_back({rank.process.end().fd(), POLLIN, 0});
    if (rank.out_open) polled.push_back({rank.process.out().fd(), POLLIN, 0});
    if (rank.err_open) polled.push_back({rank.process.err().fd(), POLLIN, 0});
  }
  poll(polled.data(), polled.size(), milliseconds);
}

void LocalRanks::attend(const std::function<void(LocalRank&)>& ended) {
  for (LocalRank& rank : ranks_) {
    drain(rank);
    if (rank.exit_code) continue;
    rank.exit_code = rank.process.exit_code();
    if (!rank.exit_code) continue;
    drain(rank);  // its last output
    rank.out.finish();
    rank.err.finish();
    ended(rank);
  }
}

bool LocalRanks::all_ended() const {
  return std::all_of(ranks_.begin(), ranks_.end(),
                     [](const LocalRank& rank) { return rank.exit_code.has_value(); });
}

void LocalRanks::send(int number) const {
  for (const LocalRank& rank : ranks_)
    if (!rank.exit_code) rank.process.signal(number);
}

void LocalRanks::show_errors(const std::function<bool(const LocalRank&)>& hidden) {
  for (LocalRank& rank : ranks_) {
    rank.out.show_error();
    if (!hidden(rank)) rank.err.show_error();
  }
}

const LocalRank* LocalRanks::find(std::optional<int> rank) const {
  const auto found = std::find_if(ranks_.begin(), ranks_.end(),
                                  [&](const LocalRank& local) { return local.rank == rank; });
  return found != ranks_.end() ? &*found : nullptr;
}

}  // namespace ringlet::comm
