// The roofline of ops, each alone: time, rate, share of this machine's limits, and the error
// against f64; products also beside other libraries. See --help.
#include <fmt/format.h>
#include <regex.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <map>
#include <memory>
#include <thread>

#include "ceilings.h"
#include "emulated_counts.h"
#include "floors.h"
#include "kernels_cases.h"
#include "lengths.h"
#include "measurement.h"
#include "program_options.h"
#include "ringlet/core/base/quote.h"
#include "ringlet/core/device/kernel.h"
#include "ringlet/core/io/file.h"
#include "ringlet/core/io/json.h"
#include "ringlet/core/tensor/random.h"
#include "ringlet/core/threads/parallel.h"
#include "ringlet/train/cli/exit_code.h"

namespace ringlet::bench {
namespace {

struct Options {
  std::vector<std::string> models{"mpnet-base", "minilm-l6"}, dtypes{"f32"};
  std::int64_t batch = 32, length = 0;      // length 0: SNLI's
  std::int64_t layers = 0, vocabulary = 0;  // 0: the model's
  double dropout = 0.1;
  bool products = false;
  std::vector<std::int64_t> hidden{768, 384}, tokens{256, 800, 1600};
  std::string precision = "highest", filter, device = "cpu", counters, json;
  int threads = 0, rounds = 3;
  double seconds = 0.03;
};

bool parse(Options& o, int argc, char** argv) {
  Command app(
      "kernels",
      "Every op of a training step: time, GFLOP/s of products and GB/s of compulsory traffic, the\n"
      "share of the ceiling measured at the start, the largest error against f64 relative to the\n"
      "largest value, calls per step and their milliseconds. With --products, instead, the "
      "products\n"
      "of the linear layers H -> H, H -> 4H and 4H -> H with T tokens: NT forward, NN the input's\n"
      "gradient, TN the weight's; on a CPU beside those of the libraries that this was built "
      "with,\n"
      "in turn in every round: their GFLOP/s, by how much ringlet is faster, their error");
  app.add("--model", o.models, "mpnet-base, bert-base, minilm-l6 or tiny");
  app.add("--dtype", o.dtypes, OneOf{{"f32", "bf16"}}, "f32 or bf16");
  app.add("--batch", o.batch, Range{1, 1 << 16}, "pairs of a step, of SNLI's lengths");
  app.add("--length", o.length, Range{1, 512}, "tokens of every sentence, instead");
  app.add("--layers", o.layers, Range{1, 1000}, "instead of the model's");
  app.add("--vocabulary", o.vocabulary, Range{1000, 1 << 20}, "instead of the model's");
  app.add("--dropout", o.dropout, Range{0.0, 0.9}, "");
  app.add("--products", o.products, "of linear layers, instead of a step's ops");
  app.add("--hidden", o.hidden, Range{1, 1 << 14}, "H");
  app.add("--tokens", o.tokens, Range{1, 1 << 20}, "T");
  app.add("--matmul-precision", o.precision, "of f32 products: highest, high or medium");
  app.add("--filter", o.filter, "an extended regular expression that the names of ops match");
  add_device_option(app, o.device);
  app.add("--threads-per-device", o.threads, Range{1, 1024}, "of ours and of theirs");
  app.add("--rounds", o.rounds, Range{1, 1000}, "");
  app.add("--seconds", o.seconds, Range{0.0, 60.0}, "at least, per op, program and round");
  app.add("--json", o.json, "write the rows to this file");
  app.add("--counters", o.counters, "of an emulated GPU: write its counters to this file");
  return bench::parse(app, argc, argv);
}

/// The one of 256 batches with the number of tokens nearest to the mean of the lengths.
models::PackedBatch typical_batch(const Lengths& lengths, std::int64_t rows,
                                  const models::EncoderConfig& config) {
  const double mean = lengths.mean_tokens_per_pair() * static_cast<double>(rows);
  const auto distance = [&](const models::PackedBatch& batch) {
    return std::abs(static_cast<double>(batch.tokens()) - mean);
  };
  models::PackedBatch best;
  for (std::int64_t step = 0; step < 256; ++step) {
    auto batch = lengths.batch(step, rows, config.vocab_size, config.max_tokens(), false);
    if (step == 0 || distance(batch) < distance(best)) best = std::move(batch);
  }
  return best;
}

std::vector<KernelCase> all_cases(const Options& options, Device device) {
  regex_t compiled;
  if (::regcomp(&compiled, options.filter.c_str(), REG_EXTENDED | REG_NOSUB) != 0)
    fail_input("--filter: expected an extended regular expression, found ", quote(options.filter));
  const std::unique_ptr<regex_t, void (*)(regex_t*)> filter(&compiled, ::regfree);
  std::vector<KernelCase> cases;
  const auto add = [&](std::vector<KernelCase> more) {
    for (KernelCase& c : more)
      if (::regexec(filter.get(), c.name.c_str(), 0, nullptr, 0) == 0)
        cases.push_back(std::move(c));
  };
  for (const std::string& dtype : options.dtypes) {
    for (const std::int64_t hidden : options.hidden)
      if (options.products) add(product_cases(hidden, options.tokens, parse_dtype(dtype)));
  }
  if (options.products) return cases;
  const Lengths lengths = options.length > 0 ? Lengths(options.length)
                                             : Lengths(RINGLET_BENCH_DIR "/data/snli_lengths.json");
  for (const std::string& model : options.models) {
    auto config = models::EncoderConfig::named(model);
    if (options.layers > 0) config.num_hidden_layers = options.layers;
    if (options.vocabulary > 0) config.vocab_size = options.vocabulary;
    const models::PackedBatch batch = typical_batch(lengths, options.batch, config).to(device);
    fmt::print("{}: {} tokens, {} pairs\n", model, batch.tokens(), batch.rows);
    for (const std::string& dtype : options.dtypes)
      add(step_cases(model, config, batch, parse_dtype(dtype), options.dropout));
  }
  return cases;
}

bool is_integer(const Tensor& x) {
  return x.dtype() == DType::i32 || x.dtype() == DType::i64 || x.dtype() == DType::u8;
}

/// The results for copies of the inputs.
std::vector<Tensor> results(const KernelWork& work) {
  std::vector<Tensor> copies;
  for (const Tensor& x : work.inputs) copies.push_back(x.clone());
  return work.run(copies);
}

/// The results for inputs in f64.
std::vector<Tensor> reference(const KernelWork& work) {
  std::vector<Tensor> wide;
  for (const Tensor& x : work.inputs) wide.push_back(is_integer(x) ? x : x.to(DType::f64));
  return work.run(wide);
}

/// The largest over all results of max |a - b| / max |b|.
double relative_error(const std::vector<Tensor>& a, const std::vector<Tensor>& b) {
  double worst = 0;
  for (std::size_t k = 0; k < a.size(); ++k) {
    const auto x = a[k].to_vector<double>(), y = b[k].to_vector<double>();
    double error = 0, largest = 0;
    for (std::size_t i = 0; i < x.size(); ++i) {
      error = std::max(error, std::abs(x[i] - y[i]));
      largest = std::max(largest, std::abs(y[i]));
    }
    worst = std::max(worst, largest > 0 ? error / largest : error);
  }
  return worst;
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
    sum_.add(floor_of(name, args, device));
  }

 private:
  Floor& sum_;
};

/// An op, or the sum of several.
struct Row {
  std::string name;
  Floor floor;
  double least_seconds = 0;  // by the ceilings
  std::int64_t calls = 0;
  double ms_per_step = 0;
  struct Program {
    double seconds = 0, error = 0;
  };
  std::map<std::string, Program> programs;  // ringlet's has no name

  double seconds() const { return programs.at("").seconds; }
  double ceiling_percent() const { return 100 * least_seconds / seconds(); }
  void add(const Row& other) {
    floor.add(other.floor);
    least_seconds += other.least_seconds;
    ms_per_step += other.ms_per_step;
    for (const auto& [program, one] : other.programs) {
      programs[program].seconds += one.seconds;
      programs[program].error = std::max(programs[program].error, one.error);
    }
  }
};

void print(const Row& row) {
  fmt::print("| {:<44} | {:9.1f} | {:8.1f} | {:6.1f} | {:5.1f} | {:.1e} | {:3} | {:8.3f} |",
             row.name, 1e6 * row.seconds(), row.floor.flops / row.seconds() / 1e9,
             row.floor.bytes / row.seconds() / 1e9, row.ceiling_percent(),
             row.programs.at("").error, row.calls, row.ms_per_step);
  for (const auto& [program, one] : row.programs)
    if (!program.empty())
      fmt::print(" {} {:.1f}, {:.2f}x, {:.1e} |", program, row.floor.flops / one.seconds / 1e9,
                 one.seconds / row.seconds(), one.error);
  fmt::print("\n");
  std::fflush(stdout);
}

/// Compares the results with f64, and times the programs alternately.
Row measure(const KernelCase& c, const Options& options, const Ceilings& ceilings, int threads) {
  const Device device = default_device();
  manual_seed(1);
  KernelWork work = c.prepare();
  const std::vector<Tensor> exact = reference(work);
  Row row{c.name, {}, 0, c.calls, 0, {}};
  row.programs[""].error = relative_error(results(work), exact);
  // The first run may convert weights, which a step does once for all of its products.
  work.run(work.inputs);
  {
    const FloorSum sum(row.floor);
    work.run(work.inputs);
  }
  row.least_seconds = ceilings.seconds(row.floor.flops, row.floor.bytes, row.floor.dtype);
  std::vector<Peer> programs{{"", [&work] { work.run(work.inputs); }}};
  if (work.product && device.type == DeviceType::cpu)
    for (Peer& peer : product_peers(*work.product, threads)) {
      peer.run();
      row.programs[peer.name].error = relative_error({work.product->out}, exact);
      programs.push_back(std::move(peer));
    }
  std::map<std::string, std::vector<double>> seconds;
  for (int round = 0; round < options.rounds; ++round)
    for (const Peer& program : programs) {
      // The peers' threads spin for a while after their work.
      if (programs.size() > 1) std::this_thread::sleep_for(std::chrono::milliseconds(5));
      seconds[program.name].push_back(device_seconds(device, program.run, options.seconds));
    }
  for (const auto& [name, times] : seconds) row.programs[name].seconds = median(times);
  row.ms_per_step = 1e3 * row.seconds() * static_cast<double>(c.calls);
  return row;
}

void write_json(const std::string& file, const Ceilings& ceilings, const std::vector<Row>& rows) {
  Json j{{"device", str(default_device())},
         {"kernels", kernels_of(default_device())},
         {"threads_per_device", threads_per_device()}};
  for (const DType dtype : {DType::f32, DType::bf16})
    j["ceilings"]["GFLOP/s"][std::string(name(dtype))] = ceilings.flops(dtype) / 1e9;
  for (const auto& copy : ceilings.copies())
    j["ceilings"]["copies"].push_back({{"bytes", copy.bytes}, {"GB/s", copy.rate / 1e9}});
  for (const Row& row : rows) {
    j["rows"].push_back({{"name", row.name},
                         {"us", 1e6 * row.seconds()},
                         {"GFLOP/s", row.floor.flops / row.seconds() / 1e9},
                         {"GB/s", row.floor.bytes / row.seconds() / 1e9},
                         {"ceiling_percent", row.ceiling_percent()},
                         {"error", row.programs.at("").error},
                         {"calls", row.calls},
                         {"ms_per_step", row.ms_per_step}});
    for (const auto& [program, one] : row.programs)
      if (!program.empty())
        j["rows"].back()["peers"][program] = {{"us", 1e6 * one.seconds}, {"error", one.error}};
  }
  write_file(file, j.dump(1) + "\n");
}

void measure_all(const std::vector<KernelCase>& cases, const Options& options) {
  const Ceilings ceilings(default_device());
  fmt::print(
      "{}, {}, {} thread(s); products in registers {:.1f} GFLOP/s in f32, {:.1f} in bf16; copies "
      "beyond the caches {:.1f} GB/s\n\n",
      str(default_device()), kernels_of(default_device()), threads_per_device(),
      ceilings.flops(DType::f32) / 1e9, ceilings.flops(DType::bf16) / 1e9,
      ceilings.copies().back().rate / 1e9);
  fmt::print(
      "| op | us | GFLOP/s | GB/s | % of the ceiling | error | calls a step | ms a step | each "
      "peer's GFLOP/s, by how much ringlet is faster, error "
      "|\n|---|---|---|---|---|---|---|---|---|\n");
  std::vector<Row> rows;
  std::map<std::string, Row> sums;
  for (const KernelCase& c : cases) {
    rows.push_back(measure(c, options, ceilings, threads_per_device()));
    print(rows.back());
    const std::string group = c.name.substr(0, c.name.rfind('/'));
    Row& sum =
        sums.try_emplace(group, Row{group + ", all of these", {}, 0, 0, 0, {}}).first->second;
    sum.add(rows.back());
  }
  for (const auto& [group, sum] : sums) print(sum);
  if (!options.json.empty()) write_json(options.json, ceilings, rows);
}

// ---- on the emulated GPU: counters instead of times ----

std::string tsv_heading() {
  std::string line = "case\tkernel\tlaunches\tasked\tmoved\ttouched\tpasses\tleast_passes\tlanes";
  for (const char* name : emulated::kInstructionClassNames) line += fmt::format("\t{}", name);
  return line + '\n';
}

std::string tsv_row(const std::string& name, const std::string& kernel, const CounterSum& sum) {
  const emulated::LaunchCounters& counters = sum.counters;
  std::string line = fmt::format(
      "{}\t{}\t{}\t{}\t{}\t{}\t{}\t{}\t{}", name, kernel, sum.launches, counters.bytes,
      counters.sectors * emulated::kSectorBytes, counters.touched_sectors * emulated::kSectorBytes,
      counters.bank_passes, counters.least_passes, counters.lane_instructions());
  for (const std::uint64_t warps : counters.warps) line += fmt::format("\t{}", warps);
  return line + '\n';
}

std::string count_case(const KernelCase& c, Device device) {
  manual_seed(1);
  KernelWork work = c.prepare();
  work.run(work.inputs);  // may convert weights, which a step does once
  std::string lines;
  for (const auto& [label, op] : count_ops(device, [&] { work.run(work.inputs); }))
    for (const auto& [kernel, sum] : op.kernels) {
      fmt::print("{}",
                 counters_row(str(c.name, ": ", kernel), {op.calls, op.floor, {{kernel, sum}}}, 1));
      std::fflush(stdout);
      lines += tsv_row(c.name, kernel, sum);
    }
  return lines;
}

// With modelled times; `file` gets the counters as tab-separated values for
// scripts/emulated_counters.py.
void count_cases(const std::vector<KernelCase>& cases, Device device, const std::string& file) {
  fmt::print(
      "An emulated GPU: exact counts of PTX, no times. The last columns are *modelled*, not "
      "measured (bench/emulated_counts.h).\n\n{}",
      counters_heading());
  std::string lines = tsv_heading();
  for (const KernelCase& c : cases) lines += count_case(c, device);
  if (!file.empty()) write_file(file, lines);
}

int run(int argc, char** argv) {
  Options options;
  if (!parse(options, argc, argv)) return 0;
  if (options.threads) set_threads_per_device(options.threads);
  set_matmul_precision(parse_matmul_precision(options.precision));
  const Device device = use_device(options.device);
  const std::vector<KernelCase> cases = all_cases(options, device);
  is_emulated(device) ? count_cases(cases, device, options.counters) : measure_all(cases, options);
  return 0;
}

}  // namespace
}  // namespace ringlet::bench

int main(int argc, char** argv) {
  return ringlet::cli::exit_code("kernels", [&] { return ringlet::bench::run(argc, argv); });
}
