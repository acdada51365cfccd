// The matrix products of linear layers next to those of OpenBLAS and oneDNN, alternating. See
// --help.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <map>
#include <thread>

#include "ceilings.h"
#include "device_option.h"
#include "device_seconds.h"
#include "measurement.h"
#include "parse.h"
#include "products_peers.h"
#include "ringlet/core/ops/random.h"
#include "ringlet/core/parallel.h"
#include "ringlet/core/random.h"
#include "ringlet/train/cli/exit_code.h"
#include "ringlet/train/cli/number_in.h"

namespace ringlet::bench {
namespace {

struct Options {
  std::vector<std::int64_t> hidden{768, 384};
  std::vector<std::int64_t> tokens{256, 800, 1600};
  std::vector<std::string> forms{"NT", "NN", "TN"};
  std::string dtype = "f32";
  std::string precision = "highest";
  bool kept = false;
  std::string device = "cpu";
  int threads = 1;
  int rounds = 5;
  double seconds = 0.02;
};

void add_options(CLI::App& app, Options& options) {
  app.description(
      "Products of the linear layers H -> H, H -> 4H and 4H -> H with T tokens: NT forward, NN the "
      "input's gradient, TN the weight's. GFLOP/s of ringlet and its share of the multiply-adds "
      "measured at the start; of every peer this was built with, in turn in every round, and by "
      "how much ringlet is faster (medians of the rounds); the largest error against f64 relative "
      "to the largest value.");
  app.add_option("--hidden", options.hidden, "H")->check(cli::number_in(1, 1 << 14));
  app.add_option("--tokens", options.tokens, "T")->check(cli::number_in(1, 1 << 20));
  app.add_option("--form", options.forms)->check(CLI::IsMember({"NT", "NN", "TN"}));
  app.add_option("--dtype", options.dtype)->check(CLI::IsMember({"f32", "bf16"}));
  app.add_option("--matmul-precision", options.precision, "of ours in f32")
      ->check(CLI::IsMember({"highest", "high", "medium"}));
  app.add_flag("--kept", options.kept, "our forward (NT) as where nothing learns, alone");
  add_device_option(app, options.device);
  app.add_option("--threads-per-device", options.threads, "of ours and of theirs")
      ->check(cli::number_in(1, 1024));
  app.add_option("--rounds", options.rounds)->check(cli::number_in(1, 1000));
  app.add_option("--seconds", options.seconds, "at least, per product and round")
      ->check(cli::number_in(0.0, 60.0));
}

struct Case {
  std::string name;
  MatmulOptions options;
  std::int64_t m, n, k;

  double flops() const {
    return 2.0 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k);
  }
};

std::vector<Case> cases_of(const Options& options, std::int64_t hidden) {
  std::vector<Case> cases;
  const std::int64_t wide = 4 * hidden;
  for (const std::int64_t tokens : options.tokens)
    for (const auto& [in, out] : {std::pair{hidden, hidden}, {hidden, wide}, {wide, hidden}})
      for (const std::string& form : options.forms) {
        const std::string name = fmt::format("H{} T{} {}->{} {}", hidden, tokens, in, out, form);
        if (form == "NT") cases.push_back({name, {.trans_b = true}, tokens, out, in});
        if (form == "NN") cases.push_back({name, {}, tokens, in, out});
        if (form == "TN") cases.push_back({name, {.trans_a = true}, out, in, tokens});
      }
  return cases;
}

Product product_of(const Case& c, DType dtype) {
  const auto matrix = [&](std::int64_t rows, std::int64_t columns, bool transposed) {
    return normal(transposed ? Shape{columns, rows} : Shape{rows, columns}).to(dtype);
  };
  return {matrix(c.m, c.k, c.options.trans_a), matrix(c.k, c.n, c.options.trans_b), c.options,
          empty({c.m, c.n}, dtype)};
}

double error_of(const Product& product) {
  const Tensor exact = matmul(product.a.to(DType::f64), product.b.to(DType::f64), product.options);
  const auto x = product.out.to_vector<double>(), y = exact.to_vector<double>();
  double error = 0, largest = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    error = std::max(error, std::abs(x[i] - y[i]));
    largest = std::max(largest, std::abs(y[i]));
  }
  return error / largest;
}

double seconds_of(const std::function<void()>& run, double least) {
  if (default_device().type != DeviceType::cpu) return device_seconds(default_device(), run, least);
  // The peers' threads spin for a while after their work.
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
  run();
  const auto start = std::chrono::steady_clock::now();
  std::chrono::duration<double> elapsed{};
  int times = 0;
  for (; times == 0 || elapsed.count() < least; ++times) {
    run();
    elapsed = std::chrono::steady_clock::now() - start;
  }
  return elapsed.count() / times;
}

/// The time of each contender, ours first.
struct Sum {
  double flops = 0;
  std::map<std::string, double> seconds;
};

void print_row(const std::string& name, const Sum& sum, double ceiling, const std::string& rest) {
  const double ours = sum.seconds.at("");
  fmt::print("| {:<26} | {:7.1f} | {:5.1f} |", name, sum.flops / ours / 1e9,
             100 * sum.flops / ours / ceiling);
  for (const auto& [peer, seconds] : sum.seconds)
    if (!peer.empty())
      fmt::print(" {:>8} {:7.1f} | {:5.2f}x |", peer, sum.flops / seconds / 1e9, seconds / ours);
  fmt::print("{}\n", rest);
  std::fflush(stdout);
}

Sum measure(const Case& c, const Options& options, double ceiling) {
  manual_seed(1);
  Product product = product_of(c, parse_dtype(options.dtype));
  std::vector<Peer> contenders;
  if (options.kept && c.options.trans_b) {
    contenders.push_back(
        {"", [&product] { product.out = linear(product.a, product.b, {}, Weight::kept); }});
  } else {
    contenders.push_back(
        {"", [&product] { matmul_into(product.out, product.a, product.b, product.options); }});
    if (default_device().type == DeviceType::cpu)  // the peers compute on CPUs only
      for (Peer& peer : product_peers(product, options.threads))
        contenders.push_back(std::move(peer));
  }
  std::string errors;
  for (const Peer& contender : contenders) {
    product.out.fill_(0);
    contender.run();
    errors += fmt::format(" {:.1e} |", error_of(product));
  }
  std::vector<std::vector<double>> seconds(contenders.size());
  for (int round = 0; round < options.rounds; ++round)
    for (std::size_t i = 0; i < contenders.size(); ++i)
      seconds[i].push_back(seconds_of(contenders[i].run, options.seconds));
  Sum sum{c.flops(), {}};
  for (std::size_t i = 0; i < contenders.size(); ++i)
    sum.seconds[contenders[i].name] = median(seconds[i]);
  print_row(c.name, sum, ceiling, errors);
  return sum;
}

int run(int argc, char** argv) {
  Options options;
  CLI::App app;
  add_options(app, options);
  if (!parse(app, argc, argv)) return 0;
  set_threads_per_device(options.threads);
  set_matmul_precision(parse_matmul_precision(options.precision));
  const Device device = use_device(options.device);
  const double ceiling = Ceilings(device).flops(parse_dtype(options.dtype));
  fmt::print("{}, {}, {}, {}, {} threads; such products at best: {:.1f} GFLOP/s\n\n", str(device),
             kernels_of(device), options.dtype, options.precision, options.threads, ceiling / 1e9);
  fmt::print(
      "| product | GFLOP/s | % of ceiling | each peer's GFLOP/s | ringlet is faster | "
      "errors in this order |\n|---|\n");
  for (const std::int64_t hidden : options.hidden) {
    Sum all;
    for (const Case& c : cases_of(options, hidden)) {
      const Sum sum = measure(c, options, ceiling);
      all.flops += sum.flops;
      for (const auto& [name, seconds] : sum.seconds) all.seconds[name] += seconds;
    }
    print_row(fmt::format("H{} all", hidden), all, ceiling, "");
  }
  return 0;
}

}  // namespace
}  // namespace ringlet::bench

int main(int argc, char** argv) {
  return ringlet::cli::exit_code("products", [&] { return ringlet::bench::run(argc, argv); });
}
