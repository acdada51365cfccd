// Every op of a training step, measured separately: time, rate, share of this machine's limits, and
// the error against f64. See --help.
#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include <chrono>
#include <cmath>
#include <map>

#include "ceilings.h"
#include "device_option.h"
#include "device_seconds.h"
#include "emulated_counts.h"
#include "floors.h"
#include "kernels_batch.h"
#include "kernels_cases.h"
#include "kernels_emulated.h"
#include "parse.h"
#include "ringlet/core/kernel.h"
#include "ringlet/core/parallel.h"
#include "ringlet/core/random.h"
#include "ringlet/train/cli/exit_code.h"
#include "ringlet/train/cli/number_in.h"

namespace ringlet::bench {
namespace {

struct Options {
  std::vector<std::string> models{"mpnet-base", "minilm-l6"};
  std::vector<std::string> dtypes{"f32"};
  std::string histogram = RINGLET_BENCH_DIR "/data/snli_lengths.json";
  std::int64_t batch = 32;
  std::int64_t length = 0;  // tokens of every sentence; 0: the histogram's
  double dropout = 0.1;
  std::string device = "cpu";
  int threads = 0;
  std::int64_t layers = 0, vocabulary = 0;  // 0: the model's
  std::string counters;
};

void add_options(CLI::App& app, Options& options) {
  app.name("kernels");
  app.description(
      "Every op of a training step: time, GFLOP/s of products and GB/s of compulsory traffic, the "
      "share of the ceiling measured at the start, the largest error against f64 relative to the "
      "largest value, calls per step and their milliseconds.\n"
      "Also takes --benchmark_filter=REGEX, --benchmark_min_time=SECONDS, --benchmark_out=FILE and "
      "the other options of Google Benchmark.");
  app.add_option("--model", options.models, "mpnet-base, bert-base, minilm-l6 or tiny");
  app.add_option("--dtype", options.dtypes, "f32 or bf16")->check(CLI::IsMember({"f32", "bf16"}));
  app.add_option("--batch", options.batch, "pairs of a step")->check(cli::number_in(1, 1 << 16));
  app.add_option("--histogram", options.histogram, "lengths to draw the batch from");
  app.add_option("--length", options.length, "tokens of every sentence, instead")
      ->check(cli::number_in(1, 512));
  app.add_option("--layers", options.layers, "instead of the model's")
      ->check(cli::number_in(1, 1000));
  app.add_option("--vocabulary", options.vocabulary, "instead of the model's")
      ->check(cli::number_in(1000, 1 << 20));
  app.add_option("--counters", options.counters, "a file of counters, of an emulated GPU");
  app.add_option("--dropout", options.dropout)->check(cli::number_in(0.0, 0.9));
  add_device_option(app, options.device);
  app.add_option("--threads-per-device", options.threads, "threads of a CPU device")
      ->check(cli::number_in(1, 1024));
}

void print_help() {
  CLI::App app;
  Options options;
  add_options(app, options);
  fmt::print("{}", app.help());
}

Options parse(int argc, char** argv) {
  // Google Benchmark removes its own options, answers --help and leaves the rest.
  std::vector<char*> arguments(argv, argv + argc);
  std::string tabular = "--benchmark_counters_tabular=true", time = "--benchmark_min_time=0.1";
  arguments.insert(arguments.begin() + 1, {tabular.data(), time.data()});
  argc += 2;
  benchmark::Initialize(&argc, arguments.data(), print_help);
  CLI::App app;
  Options options;
  add_options(app, options);
  bench::parse(app, argc, arguments.data());
  return options;
}

/// max |a - b| / max |b|
double relative_error(const Tensor& a, const Tensor& b) {
  const std::vector<double> x = a.to_vector<double>(), y = b.to_vector<double>();
  double error = 0, largest = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    error = std::max(error, std::abs(x[i] - y[i]));
    largest = std::max(largest, std::abs(y[i]));
  }
  return largest > 0 ? error / largest : error;
}

bool is_integer(const Tensor& x) {
  return x.dtype() == DType::i32 || x.dtype() == DType::i64 || x.dtype() == DType::u8;
}

/// Sums the minimum work of all kernels that run during its lifetime.
class FloorSum : public KernelObserver {
 public:
  explicit FloorSum(Floor& sum) : sum_(sum) { kernel_observer = this; }
  ~FloorSum() override { kernel_observer = nullptr; }
  FloorSum(const FloorSum&) = delete;
  FloorSum& operator=(const FloorSum&) = delete;

  void before(const char*, const void*, Device) override {}
  void after(const char* name, const void* args, Device device) override {
    const Floor floor = floor_of(name, args, device);
    sum_.flops += floor.flops;
    sum_.bytes += floor.bytes;
    if (floor.flops > 0) sum_.dtype = floor.dtype;
  }

 private:
  Floor& sum_;
};

/// A case with its inputs and its floor, compared with f64; only the latest one is kept.
struct Prepared {
  const KernelCase* of = nullptr;
  KernelWork work;
  Floor floor;
  double error = 0;

  void prepare(const KernelCase& c) {
    if (of == &c) return;
    of = nullptr;
    manual_seed(1);
    work = c.prepare();
    std::vector<Tensor> copies, wide;
    for (const Tensor& x : work.inputs) {
      copies.push_back(x.clone());
      wide.push_back(is_integer(x) ? x : x.to(DType::f64));
    }
    const std::vector<Tensor> out = work.run(copies), reference = work.run(wide);
    error = 0;
    for (std::size_t i = 0; i < out.size(); ++i)
      error = std::max(error, relative_error(out[i], reference[i]));
    weigh();
    of = &c;
  }

 private:
  // The first run may convert weights, which a step does once for all of its products.
  void weigh() {
    work.run(work.inputs);
    floor = {};
    const FloorSum sum(floor);
    work.run(work.inputs);
  }
};

/// Milliseconds per step, by case.
using Steps = std::map<std::string, double>;

/// Seconds of one run. Google Benchmark repeats runs on a CPU. An asynchronous device is measured
/// by its own clock, in one iteration.
double seconds_of(benchmark::State& state, Prepared& prepared, Device device) {
  const auto run = [&] { benchmark::DoNotOptimize(prepared.work.run(prepared.work.inputs)); };
  if (device.type != DeviceType::cpu) {
    const double seconds = device_seconds(device, run);
    for (auto _ : state) state.SetIterationTime(seconds);
    return seconds;
  }
  const auto start = std::chrono::steady_clock::now();
  for (auto _ : state) run();
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
  return elapsed.count() / static_cast<double>(state.iterations());
}

void measure(benchmark::State& state, const KernelCase& c, const Ceilings& ceilings,
             Prepared& prepared, Steps& steps) {
  prepared.prepare(c);
  const double seconds = seconds_of(state, prepared, default_device());
  const Floor& floor = prepared.floor;
  state.counters["GFLOP/s"] = floor.flops / seconds / 1e9;
  state.counters["GB/s"] = floor.bytes / seconds / 1e9;
  state.counters["ceiling %"] =
      100 * ceilings.seconds(floor.flops, floor.bytes, floor.dtype) / seconds;
  state.counters["error"] = prepared.error;
  state.counters["calls"] = static_cast<double>(c.calls);
  steps[c.name] = 1e3 * seconds * static_cast<double>(c.calls);
  state.counters["ms/step"] = steps[c.name];
}

/// The sum over the calls of a step, for each model and dtype; with a filter only over the ops that
/// ran.
void say_sums(const std::vector<KernelCase>& cases, const Steps& steps) {
  struct Sum {
    double milliseconds = 0;
    int ran = 0, all = 0;
  };
  std::map<std::string, Sum> sums;
  for (const KernelCase& c : cases) {
    Sum& sum = sums[c.name.substr(0, c.name.rfind('/'))];
    ++sum.all;
    const auto step = steps.find(c.name);
    if (step == steps.end()) continue;
    ++sum.ran;
    sum.milliseconds += step->second;
  }
  for (const auto& [name, sum] : sums)
    if (sum.ran > 0)
      fmt::print("{}: {:.1f} ms per step in {} of {} ops\n", name, sum.milliseconds, sum.ran,
                 sum.all);
}

void say_conditions(const Ceilings& ceilings) {
  const auto say = [](const std::string& key, const std::string& value) {
    benchmark::AddCustomContext(key, value);
  };
  say("device", str(default_device()));
  say("kernels", kernels_of(default_device()));
  say("threads per device", std::to_string(threads_per_device()));
  for (const DType dtype : {DType::f32, DType::bf16})
    say(fmt::format("ceiling products of {}", name(dtype)),
        fmt::format("{:.1f} GFLOP/s", ceilings.flops(dtype) / 1e9));
  for (const auto& copy : ceilings.copies())
    say(fmt::format("ceiling copy {:>9.2f} MB", copy.bytes / 1e6),
        fmt::format("{:.1f} GB/s", copy.rate / 1e9));
}

int run(int argc, char** argv) {
  const Options options = parse(argc, argv);
  if (options.threads) set_threads_per_device(options.threads);
  const Device device = use_device(options.device);

  const Lengths lengths(options.histogram);
  std::vector<KernelCase> cases;
  for (const std::string& model : options.models) {
    auto config = models::EncoderConfig::named(model);
    if (options.layers > 0) config.num_hidden_layers = options.layers;
    if (options.vocabulary > 0) config.vocab_size = options.vocabulary;
    const models::PackedBatch batch =
        (options.length > 0 ? even_batch(options.length, options.batch, config)
                            : typical_batch(lengths, options.batch, config))
            .to(device);
    benchmark::AddCustomContext(model,
                                fmt::format("{} tokens, {} pairs", batch.tokens(), batch.rows));
    for (const std::string& dtype : options.dtypes)
      for (KernelCase& c : step_cases(model, config, batch, parse_dtype(dtype), options.dropout))
        cases.push_back(std::move(c));
  }
  if (is_emulated(device)) {
    count_cases(cases, device, benchmark::GetBenchmarkFilter(), options.counters);
    return 0;
  }
  const Ceilings ceilings(device);
  say_conditions(ceilings);
  Prepared prepared;
  Steps steps;
  for (const KernelCase& c : cases) {
    auto* const registered = benchmark::RegisterBenchmark(
        c.name.c_str(),
        [&](benchmark::State& state) { measure(state, c, ceilings, prepared, steps); });
    registered->Unit(benchmark::kMicrosecond);
    if (device.type != DeviceType::cpu) registered->UseManualTime()->Iterations(1);
  }
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
  say_sums(cases, steps);
  return 0;
}

}  // namespace
}  // namespace ringlet::bench

int main(int argc, char** argv) {
  return ringlet::cli::exit_code("kernels", [&] { return ringlet::bench::run(argc, argv); });
}
