// nccl-tests for ringlet: the time of each collective by size, next to gloo's and Open MPI's. See
// --help.
#include "collectives.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "program_options.h"
#include "ringlet/comm/launch.h"
#include "ringlet/core/base/error.h"
#include "ringlet/core/io/file.h"
#include "ringlet/core/io/json.h"
#include "ringlet/train/cli/exit_code.h"

namespace ringlet::bench {
namespace {

std::optional<CollectivesOptions> parse_collectives(int argc, char** argv) {
  CollectivesOptions o;
  std::string dtype = "f32", device = "cpu";
  bool no_mpi = false;
  Command app(
      "collectives",
      "Collectives between processes of this host, or between threads that have a GPU each or\n"
      "share one (--device cuda), after nccl-tests: time, algbw = bytes / time,\n"
      "busbw = what each link carries, wrong values. Every size is measured with all contenders "
      "in\n"
      "turn: ours (direct, ring, of ranks on GPUs also as a launch on each), gloo's own "
      "(native),\n"
      "Open MPI's, and the copies that ours cannot do without, free of any waiting (copy).");
  add_device_option(app, device);
  app.add("--ranks", o.ranks, Range{2, 256}, "processes, on GPUs threads");
  app.add("--op", o.ops,
          OneOf{{"all_reduce", "reduce_scatter", "all_gather", "broadcast", "barrier"}},
          "all of them unless given; may be repeated");
  app.add("-b,--begin", o.begin, cli::parse_bytes,
          "smallest buffer, bytes; 0: nothing, then one element");
  app.add("-e,--end", o.end, cli::parse_bytes, "largest buffer, bytes");
  app.add("-f,--factor", o.factor, Range{2, 1024}, "from one size to the next");
  app.add("--rounds", o.rounds, Range{1, 1000}, "rounds over all sizes");
  app.add("--seconds", o.seconds, Range{0.001, 60.0}, "per size and contender in each round");
  app.add("--dtype", dtype, "of the elements");
  app.add("--transport", o.transport, comm::parse_transport,
          "of ring and direct: auto, thread, shm or gloo, nccl on GPUs");
  app.add("--algorithm", o.algorithm, OneOf{{"all", "ring", "direct", "in-kernel", "native"}},
          "ring, direct, in-kernel (both, as a launch on each GPU), native, or all of them and the "
          "copies");
  app.add("--no-mpi", no_mpi, "leave Open MPI out");
  app.add("--json", o.json, "write the rows to this file");
  if (!parse(app, argc, argv)) return std::nullopt;
  o.dtype = parse_dtype(dtype);
  o.device = use_device(device);
  const bool on_cpu = o.device.type == DeviceType::cpu;
  if (on_cpu && o.transport == comm::TransportKind::nccl)
    fail_input("--transport nccl: is for tensors on GPUs, and these are on a CPU");
  if (!on_cpu && o.transport == comm::TransportKind::automatic)
    o.transport = comm::TransportKind::thread;
  if (const std::string why = o.why_not_in_kernel(); o.algorithm == "in-kernel" && !why.empty())
    fail_input("--algorithm in-kernel: ", why);
  if (!on_cpu && o.algorithm == "native")
    if (const std::string why = o.why_not_nccl(); !why.empty())
      fail_input("--algorithm native: ", why);
  o.mpi = !no_mpi && o.algorithm == "all" && on_cpu;
  if (o.end < o.begin)
    fail_input("--begin ", o.begin, " --end ", o.end, ": expected a range of sizes");
  return o;
}

struct Row {
  std::string op, algorithm, transport;
  int ranks;
  std::int64_t bytes;
  std::vector<double> seconds;
  std::int64_t wrong = 0;

  double percentile(double p) const {
    std::vector<double> sorted = seconds;
    std::sort(sorted.begin(), sorted.end());
    const auto last = static_cast<double>(sorted.size() - 1);
    return sorted[static_cast<std::size_t>(p * last)];
  }
  double algbw() const { return static_cast<double>(bytes) / percentile(0.5) * 1e-9; }
  // The rate of each link, by nccl-tests' definition.
  double busbw() const {
    const double n = ranks;
    if (op == "all_reduce") return algbw() * 2 * (n - 1) / n;
    return op == "broadcast" ? algbw() : algbw() * (n - 1) / n;
  }
};

// A row's share of the rate of copies of the same size, the upper limit: 1 if equal.
std::optional<double> of_copy(const Row& row, const std::vector<Row>& rows) {
  for (const Row& copy : rows)
    if (copy.algorithm == "copy" && copy.op == row.op && copy.bytes == row.bytes && row.bytes > 0)
      return copy.percentile(0.5) / row.percentile(0.5);
  return std::nullopt;
}

void print(const std::vector<Row>& rows) {
  fmt::print("{:<15}{:>12}  {:<17}{:<10}{:>9}{:>9}{:>12}{:>12}{:>9}{:>7}\n", "op", "bytes",
             "algorithm", "transport", "algbw", "busbw", "p50 us", "p99 us", "% copy", "wrong");
  for (const Row& row : rows) {
    const std::optional<double> share = of_copy(row, rows);
    fmt::print("{:<15}{:>12}  {:<17}{:<10}{:>9.2f}{:>9.2f}{:>12.1f}{:>12.1f}{:>9}{:>7}\n", row.op,
               row.bytes, row.algorithm, row.transport, row.algbw(), row.busbw(),
               row.percentile(0.5) * 1e6, row.percentile(0.99) * 1e6,
               share ? fmt::format("{:.1f}", 100 * *share) : "-", row.wrong);
  }
}

void write_json(const CollectivesOptions& options, const std::vector<Row>& rows) {
  Json json;
  for (const Row& row : rows) {
    json["rows"].push_back({{"op", row.op},
                            {"algorithm", row.algorithm},
                            {"transport", row.transport},
                            {"ranks", row.ranks},
                            {"bytes", row.bytes},
                            {"algbw", row.algbw()},
                            {"busbw", row.busbw()},
                            {"p50_us", row.percentile(0.5) * 1e6},
                            {"p99_us", row.percentile(0.99) * 1e6},
                            {"wrong", row.wrong}});
    if (const auto share = of_copy(row, rows)) json["rows"].back()["of_copy"] = *share;
  }
  for (const auto& [what, why] : options.left_out()) json["left_out"][what] = why;
  write_file(options.json, json.dump(2) + "\n");
}

// A round covers all sizes, and each size all contenders, so that drift affects all equally.
void measure(const CollectivesOptions& options, const comm::Group& world) {
  const auto contenders = make_contenders(options, world);
  std::vector<Row> rows;
  for (int round = 0; round < options.rounds; ++round) {
    std::size_t at = 0;
    for (const std::string& op : options.ops)
      for (const std::int64_t bytes :
           op == "barrier" ? std::vector<std::int64_t>{0} : options.sizes())
        for (const Contender& contender : contenders) {
          if (!contender.can(op)) continue;
          const Timed timed = contender.run(op, bytes, round == 0);
          if (round == 0)
            rows.push_back({op,
                            contender.algorithm,
                            contender.transport,
                            world.size(),
                            bytes,
                            {},
                            timed.wrong});
          std::vector<double>& seconds = rows[at++].seconds;
          seconds.insert(seconds.end(), timed.seconds.begin(), timed.seconds.end());
        }
  }
  if (world.rank() != 0) return;
  print(rows);
  if (options.algorithm == "all")
    for (const auto& [what, why] : options.left_out())
      fmt::print("No {} ring and direct: {}.\n", what, why);
  if (!options.json.empty()) write_json(options, rows);
  for (const Row& row : rows)
    RINGLET_CHECK_EQ(row.wrong, 0, row.op, " of ", row.bytes, " bytes, ", row.algorithm,
                     ": wrong values");
}

int run(int argc, char** argv) {
  const auto options = parse_collectives(argc, argv);
  if (!options) return 0;
  if (!options->json.empty())
    AtomicFile probe(options->json);  // errors appear before the minutes of work
  const bool threads =
      options->transport == comm::TransportKind::thread || options->device.type != DeviceType::cpu;
  comm::launch([&](const comm::Group& world) { measure(*options, world); }, options->ranks,
               {.ranks = threads ? comm::Ranks::threads : comm::Ranks::processes,
                .group = {.timeout = std::chrono::minutes(10)}});
  return 0;
}

}  // namespace
}  // namespace ringlet::bench

int main(int argc, char** argv) {
  return ringlet::cli::exit_code("collectives", [&] { return ringlet::bench::run(argc, argv); });
}
