// The throughput table: pairs per second of a whole training step (forward, backward, clipping,
// AdamW), by strategy. See --help.
#include <fmt/format.h>

#include <chrono>
#include <fstream>

#include "lengths.h"
#include "options.h"
#include "report.h"
#include "ringlet.h"
#include "ringlet/core/cpu/isa.h"

namespace ringlet::bench {
namespace {

using Clock = std::chrono::steady_clock;

double ms_since(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

// The process's peak of resident memory; clear_refs starts it anew where the kernel allows.
void reset_peak_resident() { std::ofstream("/proc/self/clear_refs") << "5"; }
std::size_t peak_resident() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);)
    if (line.starts_with("VmHWM:")) return std::stoull(line.substr(6)) * 1024;
  return 0;
}

// Bench batches are ids, so the named models need no vocabulary of their own.
models::Tokenizer special_tokens(models::Architecture architecture) {
  static const std::vector<std::string> bert{"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"};
  static const std::vector<std::string> mpnet{"<s>", "<pad>", "</s>", "<unk>", "[UNK]", "<mask>"};
  return models::Tokenizer::from_pieces(architecture == models::Architecture::bert ? bert : mpnet);
}

models::SentenceEncoder make_model(const std::string& name) {
  if (std::filesystem::is_directory(name)) return models::SentenceEncoder::from_pretrained(name);
  const models::EncoderConfig config = models::EncoderConfig::named(name);
  return {config, special_tokens(config.architecture)};
}

// One strategy with its model, stepped from outside so that rounds can alternate.
class Runner {
 public:
  Runner(const ThroughputOptions& options, const Lengths& lengths)
      : options_(options),
        lengths_(lengths),
        model_(make_model(options.model)),
        loss_(model_, 3),
        optimizer_(loss_, {.lr = 2e-5, .weight_decay = 0.01, .max_grad_norm = 1.0}) {
    model_.transformer()->set_compute_dtype(options.dtype);
    model_.set_forward_per_column(options.per_column);
    row_.strategy = options.strategy;
    row_.dtype = name(options.dtype);
    row_.batch = options.batch;
  }

  void step(bool timed) {
    const auto start = Clock::now();
    const models::PackedBatch batch = lengths_.batch(
        step_++, options_.batch, model_.config().vocab_size,
        std::min(options_.max_length, model_.config().max_tokens()), options_.padded);
    const double data = ms_since(start);
    const Variable value = loss_(batch);
    const double forward = ms_since(start);
    value.backward();
    const double backward = ms_since(start);
    optimizer_.step();
    optimizer_.zero_grad();
    const double all = ms_since(start);
    RINGLET_CHECK(std::isfinite(value.item()), "the loss is ", value.item());
    if (!timed) return;
    row_.step_ms.push_back(all);
    row_.phase_ms["1 data"].push_back(data);
    row_.phase_ms["2 forward"].push_back(forward - data);
    row_.phase_ms["3 backward"].push_back(backward - forward);
    row_.phase_ms["4 optimizer"].push_back(all - backward);
    real_ += static_cast<double>(batch.real_tokens);
    padded_ += static_cast<double>(batch.padded_tokens);
  }

  double flops_per_step() const {
    const auto parameters = static_cast<double>(model_.transformer()->num_parameters() -
                                                model_.config().vocab_size * model_.dimension());
    return 6 * parameters * lengths_.mean_tokens_per_pair() * static_cast<double>(options_.batch);
  }

  Row row() const {
    Row out = row_;
    const auto steps = static_cast<double>(row_.step_ms.size());
    out.real_tokens = real_ / steps;
    out.padded_tokens = padded_ / steps;
    out.peak_memory_bytes = peak_resident();
    out.peak_tensor_bytes = memory_stats(model_.device()).peak;
    return out;
  }

 private:
  const ThroughputOptions& options_;
  const Lengths& lengths_;
  models::SentenceEncoder model_;
  models::SoftmaxLoss loss_;
  train::AdamW optimizer_;
  std::int64_t step_ = 0;
  Row row_;
  double real_ = 0, padded_ = 0;
};

// GFLOP/s of one large product, to say beforehand how long the bench will take.
double measure_gemm() {
  const Tensor a = uniform({512, 768}), b = uniform({768, 768});
  double best = 0;
  for (int i = 0; i < 3; ++i) {
    const auto start = Clock::now();
    static_cast<void>(matmul(a, b, {.trans_b = true}));
    best = std::max(best, 2.0 * 512 * 768 * 768 / ms_since(start) * 1e3);
  }
  return best;
}

int run(int argc, char** argv) {
  const auto options = parse_throughput(argc, argv);
  if (!options) return 0;
  if (options->threads) set_threads_per_device(options->threads);
  const Lengths lengths(options->histogram);
  reset_peak_resident();
  Runner runner(*options, lengths);
  const int steps = options->warmup + options->rounds * options->steps;
  fmt::print("{}, batch {}, {}, {} threads, {} kernels, {:.2f} tokens per pair of {}\n",
             options->model, options->batch, name(options->dtype), threads_per_device(),
             cpu::name(cpu::isa()), lengths.mean_tokens_per_pair(), options->histogram);
  const double padding = options->padded ? 2 : 1;
  fmt::print("about {:.0f} s for {} steps\n",
             1.3 * padding * steps * runner.flops_per_step() / measure_gemm(), steps);
  std::fflush(stdout);
  for (int i = 0; i < options->warmup; ++i) runner.step(false);
  for (int round = 0; round < options->rounds; ++round)
    for (int i = 0; i < options->steps; ++i) runner.step(true);

  const std::vector<Row> rows{runner.row()};
  fmt::print("\n{}", to_markdown(rows));
  if (!options->json.empty())
    write_json(
        options->json, rows,
        {{"model", options->model},
         {"recipe", options->recipe},
         {"padded", options->padded ? "yes" : "no"},
         {"threads_per_device", std::to_string(threads_per_device())},
         {"isa", std::string(cpu::name(cpu::isa()))},
         {"histogram_tokens_per_pair", fmt::format("{:.4f}", lengths.mean_tokens_per_pair())}});
  return 0;
}

}  // namespace
}  // namespace ringlet::bench

int main(int argc, char** argv) {
  try {
    return ringlet::bench::run(argc, argv);
  } catch (const ringlet::InputError& error) {
    fmt::print(stderr, "throughput: {}\n", error.what());
    return 2;
  } catch (const std::exception& error) {
    fmt::print(stderr, "throughput: {}\n", error.what());
    return 1;
  }
}
