// Times the algorithms that cuBLASLt offers for the products of training steps. Writes those that
// are faster than its first choice as rows of cuda/product_table.inc. See --help.
#include <fmt/format.h>

#include <fstream>

#include "product_tuning.h"
#include "program_options.h"
#include "ringlet/core/base/quote.h"
#include "ringlet/core/device/device_time.h"
#include "ringlet/core/device/graph.h"
#include "ringlet/core/io/file.h"
#include "ringlet/core/ops/elementwise.h"
#include "ringlet/core/ops/random.h"
#include "ringlet/core/ops/reduce.h"
#include "ringlet/cuda/product_algorithm.h"
#include "ringlet/cuda/stream.h"
#include "ringlet/cuda/workspace.h"
#include "ringlet/train/cli/exit_code.h"

namespace ringlet::bench {
namespace {

constexpr int kAlgorithms = 8;
constexpr double kCaches = 128e6;  // bytes that no GPU's cache holds
constexpr int kMostRuns = 32;      // of a graph
constexpr double kGraphSeconds = 3e-4;
constexpr double kHeld = 5e-4;            // seconds, in which the host enqueues a round
constexpr double kMostDifference = 1e-4;  // of the squares of the first choice's results

struct Options {
  std::vector<std::int64_t> hidden{768, 384}, tokens;
  double seconds = 100;
  int rounds = 9;
  std::string device = "cuda", out = "product_table.inc";
};

bool parse(Options& o, int argc, char** argv) {
  Command app(
      "tune_products",
      "Times the algorithms that cuBLASLt offers for a bf16 step's products of linear layers\n"
      "H -> 3H, H -> H, H -> 4H and 4H -> H: NT with a bias, NN, TN, and TN with sums. Prints the\n"
      "microseconds of its first choice and of the fastest. Writes a row for each product whose\n"
      "fastest one wins by more than the spread. The file can be included after every line");
  app.add(
      "--hidden", o.hidden,
      [](const std::string& text) {
        const auto hidden = parse_number<std::int64_t>(text).value_or(0);
        if (hidden < 8 || hidden > 1 << 14 || hidden % 8 != 0)
          fail_input("expected a multiple of 8 up to 16384, found '", text, "'");
        return hidden;
      },
      "H");
  app.add("--tokens", o.tokens, Range{1, 1 << 20}, "instead of the buckets of steps");
  app.add("--seconds", o.seconds, Range{0.0, 1e6}, "after which no product is begun");
  app.add("--rounds", o.rounds, Range{1, 1000}, "of each algorithm");
  add_device_option(app, o.device);
  app.add("--out", o.out, "the rows");
  return bench::parse(app, argc, argv);
}

/// The products of a linear layer: forward, the input's gradient, the weight's.
struct Form {
  bool trans_a, trans_b, bias, sums;
  DType out;
};
constexpr Form kForms[]{{false, true, true, false, DType::bf16},
                        {false, false, false, false, DType::bf16},
                        {true, false, false, false, DType::f32},
                        {true, false, false, true, DType::f32}};

struct Sizes {
  std::int64_t m, n, k;
};
/// The product of this form in a layer in -> out.
Sizes sizes_of(const Form& form, std::int64_t tokens, std::int64_t in, std::int64_t out) {
  if (form.trans_a) return {out, in, tokens};
  return form.trans_b ? Sizes{tokens, out, in} : Sizes{tokens, in, out};
}

/// The operands of one product.
struct Operands {
  Tensor a, b, vector, out;

  std::size_t nbytes() const { return a.nbytes() + b.nbytes() + out.nbytes(); }
  Operands clone() const { return {a.clone(), b.clone(), vector.clone(), out.clone()}; }
};

/// out (m, n) = op(a) op(b), and the algorithms that compute it.
class Contest {
 public:
  Contest(Device device, const Form& form, const Sizes& sizes)
      : device_(device), form_(form), workspace_(device, cuda::kProductWorkspace) {
    const auto [m, n, k] = sizes;
    const auto matrix = [](std::int64_t rows, std::int64_t columns, bool transposed) {
      return normal(transposed ? Shape{columns, rows} : Shape{rows, columns}).to(DType::bf16);
    };
    sets_.push_back({matrix(m, k, form.trans_a), matrix(k, n, form.trans_b),
                     form.sums ? zeros({m}) : normal({n}).to(DType::bf16),
                     zeros({m, n}, form.out)});
    const double flops = 2.0 * static_cast<double>(m * n * k);
    runs_ = std::clamp(static_cast<int>(kGraphSeconds / (flops / 5e14 + 4e-6)), 2, kMostRuns);
    const auto sets = static_cast<int>(kCaches / static_cast<double>(sets_[0].nbytes()));
    for (int i = 1; i < std::min(sets, runs_); ++i) sets_.push_back(sets_[0].clone());
    key_ = {plan(sizes),
            device,
            MatmulPrecision::highest,
            cuda::kMostAlignment,
            cuda::kMostAlignment,
            cuda::kMostAlignment,
            cuda::kMostAlignment};
    descriptors_.emplace(key_);
    choices_ = descriptors_->choices(key_, kAlgorithms);
    if (choices_.empty()) return;
    const auto unsound = [&, first = results(choices_[0])](const auto& choice) {
      return !is_sound(results(choice), results(choice), first);
    };
    choices_.erase(std::remove_if(choices_.begin() + 1, choices_.end(), unsound), choices_.end());
  }

  std::string name() const { return cuda::product_name(key_); }
  /// The library's first choice, and those others that are sound.
  std::span<const cublasLtMatmulHeuristicResult_t> choices() const { return choices_; }

  /// The seconds of one run, by algorithm.
  std::vector<Quartiles> measure(int rounds) {
    std::vector<std::unique_ptr<DeviceGraph>> graphs;
    for (const auto& choice : choices_) {
      run(choice, 0);  // loads its kernel
      graphs.push_back(capture(device_, [&] {
        for (int i = 0; i < runs_; ++i) run(choice, static_cast<std::size_t>(i) % sets_.size());
      }));
    }
    std::vector<std::vector<double>> seconds(graphs.size());
    const auto turn = [&](int round, std::size_t i) {
      return (static_cast<std::size_t>(round) + i) % graphs.size();
    };
    for (int round = 0; round < rounds; ++round) {
      std::vector<std::unique_ptr<DeviceTime>> times;
      hold(device_, kHeld);
      times.push_back(device_time(device_));
      for (std::size_t i = 0; i < graphs.size(); ++i) {
        graphs[turn(round, i)]->replay();
        times.push_back(device_time(device_));
      }
      for (std::size_t i = 0; i < graphs.size(); ++i)
        seconds[turn(round, i)].push_back(times[i + 1]->seconds_since(*times[i]) / runs_);
    }
    std::vector<Quartiles> all;
    for (auto& one : seconds) all.push_back(quartiles(std::move(one)));
    return all;
  }

 private:
  cuda::MatmulPlan plan(const Sizes& sizes) {
    MatmulArgs args{};
    args.batch = 1, args.m = sizes.m, args.n = sizes.n, args.k = sizes.k;
    args.trans_a = form_.trans_a, args.trans_b = form_.trans_b;
    args.dtype = args.a_dtype = args.b_dtype = DType::bf16;
    args.out_dtype = form_.out;
    if (form_.bias) args.bias = sets_[0].vector.bytes();
    if (form_.sums) args.a_sums = sets_[0].vector.mutable_bytes();
    return cuda::plan_matmul(args, true);
  }
  void run(const cublasLtMatmulHeuristicResult_t& choice, std::size_t set) {
    Operands& x = sets_[set];
    const cuda::ProductPointers at{
        x.b.bytes(), x.a.bytes(), form_.bias ? x.vector.bytes() : nullptr,
        form_.sums ? x.vector.mutable_bytes() : nullptr, x.out.mutable_bytes()};
    descriptors_->run(key_, choice.algo, at, workspace_.data(), workspace_.nbytes(),
                      cuda::current_stream(device_));
  }
  std::vector<Tensor> results(const cublasLtMatmulHeuristicResult_t& choice) {
    run(choice, 0);
    return {sets_[0].out.clone(), sets_[0].vector.clone()};
  }
  /// Whether two runs have the same bits, near those of the first choice.
  static bool is_sound(const std::vector<Tensor>& once, const std::vector<Tensor>& again,
                       const std::vector<Tensor>& first) {
    for (std::size_t i = 0; i < once.size(); ++i)
      if (squares(sub(once[i], again[i])) != 0 ||
          squares(sub(once[i], first[i])) > kMostDifference * squares(first[i]))
        return false;
    return true;
  }
  static double squares(const Tensor& x) {
    const Tensor wide = x.to(DType::f32);
    return sum(mul(wide, wide)).item();
  }

  Device device_;
  Form form_;
  cuda::Workspace workspace_;
  int runs_ = 1;
  std::vector<Operands> sets_;
  cuda::ProductKey key_{};
  std::optional<cuda::ProductDescriptors> descriptors_;
  std::vector<cublasLtMatmulHeuristicResult_t> choices_;
};

/// Writes rows while there is time.
class Tuning {
 public:
  Tuning(const Options& options, Device device)
      : options_(options), device_(device), gpu_(kernels_of(device)), file_(options.out) {
    RINGLET_CHECK(file_.good(), "[tune_products] ", options.out, " cannot be written");
    fmt::print("{}, cuBLASLt {}\n", gpu_, cublas_);
    file_ << "// Rows of product_table.h, by bench/tune_products.\n" << std::flush;
  }

  /// The products of an encoder's layer; false when the time is over.
  bool layer(std::int64_t hidden, std::int64_t tokens) {
    double first = 0, chosen = 0;
    for (const auto& [in, out] : {std::pair{hidden, 3 * hidden},
                                  {hidden, hidden},
                                  {hidden, 4 * hidden},
                                  {4 * hidden, hidden}})
      for (const Form& form : kForms) {
        if (seconds() > options_.seconds) return false;
        const auto [before, after] = product(form, sizes_of(form, tokens, in, out));
        first += before, chosen += after;
      }
    fmt::print("H {}, {} tokens, all: {:.1f} us, {:.1f} by the table\n", hidden, tokens,
               1e6 * first, 1e6 * chosen);
    return true;
  }

 private:
  /// The seconds of the first choice and of the one to use.
  std::pair<double, double> product(const Form& form, const Sizes& sizes) {
    Contest contest(device_, form, sizes);
    const auto choices = contest.choices();
    if (choices.empty()) return {0, 0};
    const std::vector<Quartiles> times = contest.measure(options_.rounds);
    const std::size_t best = fastest(times);
    const double first = times[0].median, chosen = times[best].median;
    fmt::print("{}: {:.2f} us, algorithm {} of {} {:.2f}\n", contest.name(), 1e6 * first, best,
               choices.size(), 1e6 * chosen);
    std::fflush(stdout);
    if (best > 0)
      file_ << table_row(gpu_, cublas_, contest.name(), choices[best].algo.data) << std::flush;
    return {first, chosen};
  }
  double seconds() const { return steady_seconds() - start_; }

  Options options_;
  Device device_;
  std::string gpu_;
  std::size_t cublas_ = cuda::cublas_lt().cublasLtGetVersion();
  std::ofstream file_;
  double start_ = steady_seconds();
};

int run(int argc, char** argv) {
  Options options;
  if (!parse(options, argc, argv)) return 0;
  if (path_exists(options.out)) fail_input("--out ", options.out, ": expected a new file");
  const Device device = use_device(options.device);
  RINGLET_CHECK(device.type == DeviceType::cuda, "[tune_products] ", device, " is no GPU");
  manual_seed(1);
  Tuning tuning(options, device);
  for (const std::int64_t hidden : options.hidden)
    for (const std::int64_t tokens : options.tokens.empty() ? tuned_tokens() : options.tokens)
      if (!tuning.layer(hidden, tokens)) {
        fmt::print("{} s are over\n", options.seconds);
        return 0;
      }
  return 0;
}

}  // namespace
}  // namespace ringlet::bench

int main(int argc, char** argv) {
  return ringlet::cli::exit_code("tune_products", [&] { return ringlet::bench::run(argc, argv); });
}
