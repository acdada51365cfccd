#include "memory.h"

#include <fmt/format.h>

#include <fstream>

#include "ringlet/core/base/error.h"

namespace ringlet::bench {
namespace {

constexpr std::int64_t kParameterBytes = 4;  // also of the statistics of norms and softmax

/// A layer's four weights (H, H) and two (H, I).
std::int64_t layer_weights(const models::EncoderConfig& config) {
  return config.hidden_size * (4 * config.hidden_size + 2 * config.intermediate_size);
}

// Activations that a layer saves per token, in elements. Its input for q, k and v; these three and
// attention's result; each of two norms' normalised sum; the first norm's result; before and after
// GELU.
std::int64_t saved_activations(const models::EncoderConfig& config) {
  return (1 + 3 + 1 + 2 + 1) * config.hidden_size + 2 * config.intermediate_size;
}

// Per token: log-sum-exp of each head, and the divisor of each of two norms.
std::int64_t saved_statistics(const models::EncoderConfig& config) {
  return config.num_attention_heads + 2;
}

double available_memory() {
  std::ifstream info("/proc/meminfo");
  for (std::string line; std::getline(info, line);)
    if (line.starts_with("MemAvailable:")) return 1024 * std::stod(line.substr(13));
  return static_cast<double>(SIZE_MAX);
}

}  // namespace

double state_bytes(const Plan& plan, const models::EncoderConfig& config) {
  const double n = plan.devices;
  const double embeddings = static_cast<double>(
      (config.vocab_size + config.max_position_embeddings) * config.hidden_size);
  const double all =
      static_cast<double>(config.num_hidden_layers * layer_weights(config)) + embeddings;
  // Each process of a mesh first makes the whole model, and then keeps its stage or its slices.
  if (plan.same_rows()) return std::max(4 * n * all, 16 * all);
  const train::StrategyTraits sharded = train::traits(plan.strategy);
  const auto copies = [n](bool one) { return one ? 1 : n; };
  return 4 * all *
         (copies(sharded.parameters) + copies(sharded.gradients) +
          2 * copies(sharded.state || plan.strategy == train::Strategy::dp));
}

StepMemory step_memory(models::Transformer& encoder, std::int64_t tokens, DType dtype,
                       DeviceType device) {
  const models::EncoderConfig& config = encoder.config();
  const auto element = static_cast<std::int64_t>(itemsize(dtype));
  const std::int64_t layers = config.num_hidden_layers, hidden = config.hidden_size;
  const bool rounds = device == DeviceType::cuda && dtype == DType::bf16;
  const std::int64_t parameters = encoder.num_parameters();
  StepMemory memory;
  memory.parameters = static_cast<double>(kParameterBytes * parameters);
  memory.gradients = memory.parameters;
  memory.moments = 2 * memory.parameters;
  memory.sidecars = rounds ? static_cast<double>(element * parameters) : 0;
  // The embeddings' norm saves its normalised input and divisor, as others do.
  memory.saved =
      static_cast<double>(tokens * (element * (hidden + layers * saved_activations(config)) +
                                    kParameterBytes * (1 + layers * saved_statistics(config))));
  // The gradients of the last norm's result and two inputs; or of the product before it, after the
  // norm has released what it saved.
  memory.passing = static_cast<double>(tokens * element *
                                       std::max(3 * hidden, hidden + config.intermediate_size));
  return memory;
}

void check_memory(const Plan& plan, const models::EncoderConfig& config, double share_here) {
  const double share = plan.devices > 1 ? share_here : 1, available = available_memory();
  const double needed = state_bytes(plan, config) * share;
  if (needed <= available) return;
  fail_input("--strategy ", plan.name, ": weights, gradients and optimizer state of ", plan.devices,
             share < 1 ? " devices need of this host " : " device(s) need ",
             fmt::format("{:.1f} GB, available are {:.1f} GB", needed / 1e9, available / 1e9));
}

}  // namespace ringlet::bench
