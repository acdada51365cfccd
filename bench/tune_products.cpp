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

/// The products of a linear layer: forward, the input's gradient, the weight's.
struct Form {
  bool trans_a, trans_b, bias, sums;
  DType out;
};
constexpr Form kForms[]{{false, true, true, false, DType::bf16},
                        {false, false, false, false, DType::bf16},
                        {true, false, false, false, DType::f32},
                        {true, false, false, true, DType::f32}};

struct Product {
  Form form;
  std::int64_t m, n, k;
};

/// The products of encoders' layers.
std::vector<Product> products_of(const std::vector<std::int64_t>& all_hidden,
                                 const std::vector<std::int64_t>& all_tokens) {
  std::vector<Product> all;
  for (const std::int64_t hidden : all_hidden)
    for (const std::int64_t tokens : all_tokens)
      for (const auto& [in, out] : {std::pair{hidden, 3 * hidden},
                                    {hidden, hidden},
                                    {hidden, 4 * hidden},
                                    {4 * hidden, hidden}})
        for (const Form& form : kForms) {
          if (form.trans_a)
            all.push_back({form, out, in, tokens});
          else if (form.trans_b)
            all.push_back({form, tokens, out, in});
          else
            all.push_back({form, tokens, in, out});
        }
  return all;
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
  Contest(Device device, const Product& product)
      : device_(device), form_(product.form), workspace_(device, cuda::kProductWorkspace) {
    const auto [form, m, n, k] = product;
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
    key_ = {plan(m, n, k),
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
  cuda::MatmulPlan plan(std::int64_t m, std::int64_t n, std::int64_t k) {
    MatmulArgs args{};
    args.batch = 1, args.m = m, args.n = n, args.k = k;
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

int run(int argc, char** argv) {
  std::vector<std::int64_t> hidden{768, 384}, tokens;
  double seconds = 100;
  int rounds = 9;
  std::string device_name = "cuda", out = "product_table.inc";
  Command app(
      "tune_products",
      "Times the algorithms that cuBLASLt offers for a bf16 step's products of linear layers\n"
      "H -> 3H, H -> H, H -> 4H and 4H -> H: NT with a bias, NN, TN, and TN with sums. Prints the\n"
      "microseconds of its first choice and of the fastest. Writes a row for each product whose\n"
      "fastest one wins by more than the spread. The file can be included after every line");
  app.add("--hidden", hidden, Range{8, 1 << 14}, "H, multiples of 8");
  app.add("--tokens", tokens, Range{1, 1 << 20}, "instead of the buckets of steps");
  app.add("--rounds", rounds, Range{1, 1000}, "of each algorithm");
  app.add("--seconds", seconds, Range{0.0, 1e6}, "after which no product is begun");
  add_device_option(app, device_name);
  app.add("--out", out, "the rows");
  if (!parse(app, argc, argv)) return 0;
  if (path_exists(out)) fail_input("--out ", out, ": expected a new file");
  const Device device = use_device(device_name);
  RINGLET_CHECK(device.type == DeviceType::cuda, "[tune_products] ", device, " is no GPU");
  std::ofstream file(out);
  RINGLET_CHECK(file.good(), "[tune_products] ", out, " cannot be written");
  const std::string gpu = kernels_of(device);
  const std::size_t cublas = cuda::cublas_lt().cublasLtGetVersion();
  fmt::print("{}, cuBLASLt {}\n", gpu, cublas);
  file << "// Rows of product_table.h, by bench/tune_products.\n" << std::flush;
  manual_seed(1);
  const double start = steady_seconds();
  if (tokens.empty()) tokens = tuned_tokens();
  for (const Product& product : products_of(hidden, tokens)) {
    if (steady_seconds() - start > seconds) {
      fmt::print("{} s are over\n", seconds);
      return 0;
    }
    Contest contest(device, product);
    const auto choices = contest.choices();
    if (choices.empty()) continue;
    const std::vector<Quartiles> times = contest.measure(rounds);
    const std::size_t best = fastest(times);
    fmt::print("{}: {:.2f} us, algorithm {} of {} {:.2f}\n", contest.name(), 1e6 * times[0].median,
               best, choices.size(), 1e6 * times[best].median);
    std::fflush(stdout);
    if (best > 0)
      file << table_row(gpu, cublas, contest.name(), choices[best].algo.data) << std::flush;
  }
  return 0;
}

}  // namespace
}  // namespace ringlet::bench

int main(int argc, char** argv) {
  return ringlet::cli::exit_code("tune_products", [&] { return ringlet::bench::run(argc, argv); });
}
