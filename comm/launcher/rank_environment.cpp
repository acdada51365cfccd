#include "ringlet/comm/launcher/rank_environment.h"

#include "ringlet/comm/launcher/cores.h"

namespace ringlet::comm {

std::map<std::string, std::string> rank_environment(const LauncherOptions& options,
                                                    const Nodes& nodes, int attempt,
                                                    int local_rank) {
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
  variables[kPinned] = options.pin && !share_cores(options.nproc_per_node)[0].empty() ? "1" : "";
  if (nodes.token_is_new()) variables["RINGLET_TOKEN"] = nodes.token().secret();
  return variables;
}

}  // namespace ringlet::comm
