#include "ringlet/comm/launcher/local_rank.h"

#include <unistd.h>

#include <map>

#include "ringlet/comm/launcher/cores.h"
#include "ringlet/core/base/error.h"

namespace ringlet::comm {
namespace {

/// torchrun's variables, and those that init_from_env() reads.
std::map<std::string, std::string> rank_environment(const Job& job, int attempt, int local_rank,
                                                    bool pinned) {
  const auto text = [](int number) { return std::to_string(number); };
  const Nodes& nodes = job.nodes;
  const std::string rank = text(nodes.first_rank() + local_rank);
  const std::string world = text(nodes.world_size()), port = text(nodes.port());
  std::map<std::string, std::string> variables{
      {"RANK", rank},
      {"LOCAL_RANK", text(local_rank)},
      {"WORLD_SIZE", world},
      {"LOCAL_WORLD_SIZE", text(job.options.nproc_per_node)},
      {"GROUP_RANK", text(nodes.node_rank())},
      {"GROUP_WORLD_SIZE", text(job.options.nnodes)},
      {"ROLE_RANK", rank},
      {"ROLE_WORLD_SIZE", world},
      {"ROLE_NAME", "default"},
      {"MASTER_ADDR", job.options.master_addr},
      {"MASTER_PORT", port},
      {"TORCHELASTIC_RESTART_COUNT", text(attempt)},
      {"TORCHELASTIC_MAX_RESTARTS", text(job.options.max_restarts)},
      {"TORCHELASTIC_RUN_ID", job.options.run_id},
      {"RINGLET_PORT", port},
      {"RINGLET_LAUNCHER", "1"},
      {kPinned, pinned ? "1" : ""},  // empty rather than unset: hides that of an outer launcher
  };
  if (!nodes.new_token().empty()) variables["RINGLET_TOKEN"] = nodes.new_token();
  return variables;
}

void drain(Socket& from, RankStream& to) {
  if (from && !to.pump(from.fd())) from.close();
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

std::vector<LocalRank> start_ranks(const Job& job, int attempt) {
  const LauncherOptions& options = job.options;
  const auto n = static_cast<std::size_t>(options.nproc_per_node);
  std::vector<std::vector<int>> processors(n);
  if (options.pin) processors = share_cores(options.nproc_per_node);
  std::vector<LocalRank> ranks;
  ranks.reserve(n);
  for (std::size_t i = 0; i < n; ++i) {
    const int local_rank = static_cast<int>(i), rank = job.nodes.first_rank() + local_rank;
    const std::string prefix = job.nodes.world_size() > 1 ? str('[', rank, "] ") : "";
    const bool files = !options.log_dir.empty();
    const Streams shown = !files                   ? Streams{true, true}
                          : i < options.tee.size() ? options.tee[i]
                                                   : Streams{};
    const auto folder = options.log_dir / str("attempt_", attempt) / str("rank_", rank);
    const auto stream = [&](bool show, std::ostream& to, const char* file) {
      return RankStream(prefix, show ? &to : nullptr, files ? folder / file : "", job.err);
    };
    RankStream out = stream(shown.out, job.out, "stdout.log");
    RankStream err = stream(shown.err, job.err, "stderr.log");
    ranks.push_back(
        {rank,
         Process({.command = options.command,
                  .environment = rank_environment(job, attempt, local_rank, !processors[i].empty()),
                  .processors = processors[i],
                  .input = rank == 0 && isatty(STDIN_FILENO) == 0}),
         std::move(out), std::move(err)});
  }
  return ranks;
}

}  // namespace ringlet::comm
