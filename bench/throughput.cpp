// The throughput table: pairs per second of a whole training step (forward, backward, clipping,
// AdamW), by strategy. See --help.
#include <fmt/format.h>

#include <chrono>
#include <fstream>

#include "options.h"
#include "report.h"
#include "ringlet.h"
#include "ringlet/core/cpu/isa.h"
#include "source.h"

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

// One strategy with its model, stepped from outside so that rounds can alternate.
class Runner {
 public:
  explicit Runner(const ThroughputOptions& options)
      : options_(options),
        source_(make_source(options)),
        optimizer_(source_->loss(), {.lr = 2e-5, .weight_decay = 0.01, .max_grad_norm = 1.0}) {
    source_->model().transformer()->set_compute_dtype(options.dtype);
    source_->model().set_forward_per_column(options.per_column);
    row_.strategy = options.strategy;
    row_.dtype = name(options.dtype);
  }

  const Source& source() const { return *source_; }

  void step(bool timed) {
    const auto start = Clock::now();
    const models::PackedBatch& batch = source_->next();
    const double data = ms_since(start);
    const Variable value = source_->loss()(batch);
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
    pairs_ += static_cast<double>(batch.rows);
  }

  // Six per parameter and token; looked-up embeddings cost nothing.
  double flops_per_step() const {
    const models::SentenceEncoder model = source_->model();
    const auto parameters = static_cast<double>(model.transformer()->num_parameters() -
                                                model.config().vocab_size * model.dimension());
    return 6 * parameters * source_->tokens_per_pair() * static_cast<double>(options_.batch);
  }

  Row row() const {
    Row out = row_;
    const auto steps = static_cast<double>(row_.step_ms.size());
    out.real_tokens = real_ / steps;
    out.padded_tokens = padded_ / steps;
    out.pairs = pairs_ / steps;
    out.peak_memory_bytes = peak_resident();
    out.peak_tensor_bytes = memory_stats(source_->model().device()).peak;
    out.hf_rows_per_pair = source_->hf_rows_per_pair();
    return out;
  }

 private:
  const ThroughputOptions& options_;
  std::unique_ptr<Source> source_;
  train::AdamW optimizer_;
  Row row_;
  double real_ = 0, padded_ = 0, pairs_ = 0;
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

std::string draw(const std::vector<Row>& rows, const ThroughputOptions& options) {
  train::BarChart chart{
      fmt::format("{}, batch {}, {}", options.model, options.batch, name(options.dtype)),
      "pairs per second",
      {}};
  for (const Row& row : rows)
    chart.bars.push_back({fmt::format("{} x {}", row.strategy, row.devices), row.pairs_per_s(),
                          fmt::format("{:.2f}x", row.pairs_per_s() / rows[0].pairs_per_s()), ""});
  return train::draw_bars(chart);
}

std::map<std::string, std::string> settings(const ThroughputOptions& options,
                                            const Source& source) {
  return {{"model", options.model},
          {"recipe", options.recipe},
          {"padded", options.padded ? "yes" : "no"},
          {"forwards_per_step", options.per_column ? "one per column" : "one"},
          {"data", source.describe()},
          {"threads_per_device", std::to_string(threads_per_device())},
          {"isa", std::string(cpu::name(cpu::isa()))}};
}

int run(int argc, char** argv) {
  const auto options = parse_throughput(argc, argv);
  if (!options) return 0;
  if (options->threads) set_threads_per_device(options->threads);
  // What cannot be written is refused before the minutes of work.
  for (const std::string& file : {options->json, options->svg})
    if (!file.empty()) AtomicFile probe(file);
  reset_peak_resident();
  Runner runner(*options);
  const int steps = options->warmup + options->rounds * options->steps;
  fmt::print("{}, batch {}, {}, {} threads, {} kernels, {}\n", options->model, options->batch,
             name(options->dtype), threads_per_device(), cpu::name(cpu::isa()),
             runner.source().describe());
  const double padding = options->padded ? 2 : 1;
  fmt::print("about {:.0f} s for {} steps, the first {} of them not timed\n",
             1.3 * padding * steps * runner.flops_per_step() / measure_gemm(), steps,
             options->warmup);
  std::fflush(stdout);
  for (int i = 0; i < options->warmup; ++i) runner.step(false);
  for (int round = 0; round < options->rounds; ++round)
    for (int i = 0; i < options->steps; ++i) runner.step(true);

  const std::vector<Row> rows{runner.row()};
  fmt::print("\n{}", to_markdown(rows));
  if (!options->json.empty()) write_json(options->json, rows, settings(*options, runner.source()));
  if (!options->svg.empty()) write_file(options->svg, draw(rows, *options));
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
