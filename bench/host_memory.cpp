#include "host_memory.h"

#include <fmt/format.h>

#include <fstream>
#include <string>

#include "ringlet/core/base/error.h"
#include "step_memory.h"

namespace ringlet::bench {
namespace {

std::size_t available_memory() {
  std::ifstream info("/proc/meminfo");
  for (std::string line; std::getline(info, line);)
    if (line.starts_with("MemAvailable:")) return std::stoull(line.substr(13)) * 1024;
  return SIZE_MAX;
}

/// Weights, gradients and two moments over all ranks of this row, and the whole units that each
/// rank holds while it uses them.
double state_bytes(const Plan& plan, const models::EncoderConfig& config) {
  using train::Strategy;
  const double embeddings = static_cast<double>(
      (config.vocab_size + config.max_position_embeddings) * config.hidden_size);
  const double layers = layer_parameters(config), parameters = layers + embeddings;
  const double two_units = embeddings + layers / static_cast<double>(config.num_hidden_layers);
  const double five_units = two_units + embeddings + 2 * (two_units - embeddings);
  const int n = plan.devices;
  if (plan.strategy == Strategy::dp || plan.strategy == Strategy::zero1)
    return (8.0 * n + 8) * parameters;
  if (plan.strategy == Strategy::zero2) return (4.0 * n + 12) * parameters + 4.0 * n * two_units;
  if (plan.strategy == Strategy::fsdp) return 16 * parameters + 4.0 * n * five_units;
  return 16 * parameters * n;  // unconnected devices, too
}

}  // namespace

double layer_parameters(const models::EncoderConfig& config) {
  return static_cast<double>(config.num_hidden_layers * layer_weights(config));
}

void check_memory(const std::vector<Plan>& plans, const models::EncoderConfig& config,
                  double share_here) {
  const auto available = static_cast<double>(available_memory());
  for (const Plan& plan : plans) {
    const double needed = state_bytes(plan, config) * (plan.devices > 1 ? share_here : 1);
    if (needed > available)
      fail_input(
          "--strategy ", plan.name, ": weights, gradients and optimizer state of ", plan.devices,
          plan.devices > 1 && share_here < 1 ? " devices need of this host " : " device(s) need ",
          fmt::format("{:.1f}", needed / 1e9), " GB, available are ",
          fmt::format("{:.1f}", available / 1e9), " GB");
  }
}

}  // namespace ringlet::bench
