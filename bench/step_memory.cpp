#include "step_memory.h"

namespace ringlet::bench {
namespace {

constexpr std::int64_t kParameterBytes = 4;  // also of the statistics of norms and softmax

std::int64_t parameters(const models::EncoderConfig& config) {
  const std::int64_t hidden = config.hidden_size, wide = config.intermediate_size;
  const std::int64_t norm = 2 * hidden, biases = 5 * hidden + wide;
  const std::int64_t tables =
      config.vocab_size + config.max_position_embeddings + config.type_vocab_size;
  const bool mpnet = config.architecture == models::Architecture::mpnet;
  return tables * hidden + norm +
         config.num_hidden_layers * (layer_weights(config) + biases + 2 * norm) +
         (mpnet ? config.relative_attention_num_buckets * config.num_attention_heads : 0);
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

}  // namespace

StepMemory step_memory(const models::EncoderConfig& config, std::int64_t tokens, DType dtype,
                       DeviceType device) {
  const auto element = static_cast<std::int64_t>(itemsize(dtype));
  const std::int64_t layers = config.num_hidden_layers, hidden = config.hidden_size;
  const bool rounds = device == DeviceType::cuda && dtype == DType::bf16;
  StepMemory memory;
  memory.parameters = static_cast<double>(kParameterBytes * parameters(config));
  memory.gradients = memory.parameters;
  memory.moments = 2 * memory.parameters;
  memory.sidecars = rounds ? static_cast<double>(element * parameters(config)) : 0;
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

}  // namespace ringlet::bench
