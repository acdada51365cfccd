#include "options.h"

#include <algorithm>
#include <chrono>

#include "program_options.h"
#include "ringlet/comm/environment.h"
#include "ringlet/comm/host.h"
#include "ringlet/core/device/backend.h"
#include "ringlet/core/threads/parallel.h"
#include "ringlet/models/folder.h"
#include "ringlet/train/parallel/strategy_name.h"
#include "ringlet/train/report/timeline.h"
#include "timed_ranks.h"

namespace ringlet::bench {
namespace {

// How long ranks without work in a row wait for it; they learn of a rank's exit immediately.
constexpr std::chrono::hours kLongestRow{24};

/// A launcher determines the number of devices: one process each.
void take_launched(ThroughputOptions& options, int ranks) {
  if (options.devices != 0 && options.devices != ranks)
    fail_input("--devices ", options.devices, ": the launcher started ", ranks,
               " ranks, a process for each device");
  options.devices = ranks;
  for (const std::string& strategy : options.strategies)
    if (strategy == "dp")
      fail_input("--strategy dp: has its devices in one process, and a launcher started ", ranks,
                 "; expected all, none, unconnected, ",
                 train::kStrategies.list_from(train::Strategy::ddp));
}

void check_logical_ranks(const ThroughputOptions& options) {
  if (options.logical_ranks == 0) return;
  const auto expect = [&](const auto&... what) {
    fail_input("--logical-ranks ", options.logical_ranks, ": expected ", what...);
  };
  if (options.data.empty()) expect("--data, whose rows are dealt out");
  if (options.logical_ranks < options.devices) expect("at least the ", options.devices, " devices");
  for (const std::string& row : options.strategies)
    if (row == "unconnected" || row == "pipe" || row == "tensor" || row == "dp")
      expect("another row than ", row);
}

}  // namespace

Device ThroughputOptions::device_of(int rank) const {
  if (device.type == DeviceType::cpu || is_launched()) return device;
  return device_of_rank(device, rank);
}

int ThroughputOptions::ranks_per_gpu() const {
  if (device.type == DeviceType::cpu) return 1;
  if (!is_launched()) {
    const int there = backend(device.type).device_count();
    return (devices + there - 1) / there;
  }
  std::ptrdiff_t most = 1;
  for (const std::string& gpu : gpus)
    most = std::max(most, std::count(gpus.begin(), gpus.end(), gpu));
  return static_cast<int>(most);
}

void ThroughputOptions::join(const comm::Group& launched) {
  if (launched.size() == 1) return;
  world = first_ranks(launched, launched.size(), {.timeout = kLongestRow});
  share_here = comm::Environment::read().local_world_size / static_cast<double>(world.size());
  if (threads == 0) threads = threads_per_device();
  set_threads_per_device(threads);
  if (device.type != DeviceType::cpu)
    gpus = world.all_gather_bytes(comm::host_name() + ' ' + backend(device.type).bus_id(device));
}

std::optional<ThroughputOptions> parse_throughput(int argc, char** argv) {
  ThroughputOptions o;
  o.histogram = RINGLET_BENCH_DIR "/data/snli_lengths.json";
  std::string dtype = "f32", device = "cpu";
  std::vector<std::string_view> rows{"all", "unconnected", "pipe", "tensor"};
  rows.insert(rows.end(), train::kStrategies.all.begin(), train::kStrategies.all.end());
  Command app("throughput", "Pairs per second of a training step: the table's rows");
  app.add_list("--strategy", o.strategies, OneOf{rows},
               "rows: unconnected, pipe (a pipeline), tensor (slices of layers), " +
                   train::kStrategies.list() +
                   "; all is none, and on several devices all others but zero2, pipe and tensor, "
                   "under a launcher without dp");
  add_device_option(app, device);
  app.add("--devices", o.devices, Range{1, 1024},
          "devices of each row but none (default: at most two CPU devices, one GPU; under a "
          "launcher its ranks); ranks that have more than there are GPUs share them");
  app.add("--transport", o.transport, comm::parse_transport,
          "auto, shm or gloo; of GPUs, whose ranks are threads unless a launcher started "
          "them, auto or nccl");
  app.add("--algorithm", o.algorithm, comm::parse_algorithm,
          "auto, direct or ring; of ranks on GPUs with peer access also in-kernel-direct and "
          "in-kernel-ring, by which an all-reduce is one launch on each");
  app.add("--wide", o.wide, "print all columns, and the phases and memory of each row's step");
  app.add("--pipeline-schedule", o.pipeline.schedule, train::kPipelines,
          "of the row pipe: " + train::kPipelines.list());
  app.add("--trace", o.trace, "print every rank's collectives, step by step, on stderr");
  app.add("--profile", o.profile,
          "where a step of the first rank goes, kernel by kernel, and what each needs at least");
  app.add(
         "--timeline", o.timeline, [](const std::string& file) { train::TimelineFiles{file}; },
         "write the timed steps of the last round to FILE.json, for Perfetto or Chrome, and "
         "draw the last step as FILE.svg")
      .excludes = {"--trace", "--profile"};
  app.add("--step-graphs", o.step_graphs, train::kStepGraphModes,
          "auto or off: whether a GPU's steps are captured and replayed; none of a profile or a "
          "timeline is");
  app.add("--idle-steps", o.idle_steps, Range{0, 1000},
          "replayed steps of a GPU, behind all that are timed, in which CUPTI records when "
          "it idles; 0: none");
  app.add("--model", o.model, models::check_model_name,
          "mpnet-base, bert-base, minilm-l6, tiny or a folder");
  app.add("--batch", o.batch, Range{1, 1 << 20}, "pairs per device (or logical rank) and step");
  app.add(
      "--logical-ranks", o.logical_ranks, Range{1, 1 << 10},
      "deal each step of the rows of --data to so many logical ranks, on any number of devices");
  app.add("--steps", o.steps, Range{1, 1 << 20}, "timed steps per round");
  app.add("--rounds", o.rounds, Range{1, 1000}, "rounds, interleaved over strategies");
  app.add("--warmup", o.warmup, Range{0, 1000},
          "steps of each round that are not timed; the timed ones start again if one maps memory");
  app.add("--dtype", dtype, OneOf{{"f32", "bf16"}}, "f32 or bf16");
  app.add("--matmul-precision", o.precision, "of f32 products: highest, high or medium");
  app.add("--histogram", o.histogram, "lengths to draw batches from (default: SNLI's)");
  app.add("--data", o.data, "train on these files instead, FILE or FILE:LOSS");
  app.add("--loss", o.loss, OneOf{{"softmax", "mnrl"}}, "of drawn pairs: softmax or mnrl")
      .excludes = {"--data"};
  app.add("--negatives", o.loss_options.negatives, models::kNegatives,
          "of a ranking loss: global, which gathers the embeddings of all devices, or local");
  app.add("--padded", o.padded, "pad every sentence to the longest of its column");
  app.add("--recipe", o.recipe, OneOf{{"ringlet", "reference"}},
          "ringlet: packed, one forward for all columns; reference: padded, one forward per "
          "column, round robin, as Sentence Transformers");
  app.add("--threads-per-device", o.threads, Range{1, 1024},
          "threads of each device (default: the processors, shared out)");
  app.add("--json", o.json, "write the rows to this file");
  if (!parse(app, argc, argv)) return std::nullopt;
  o.device = use_device(device);
  const int launched = comm::Environment::read().world_size, processors = threads_per_device();
  if (launched > 1) take_launched(o, launched);
  if (o.device.type != DeviceType::cpu) o.devices = std::max(o.devices, 1);
  if (o.devices == 0) o.devices = std::min(2, processors);
  check_logical_ranks(o);
  if (o.threads == 0 && launched == 1) o.threads = std::max(1, processors / o.devices);
  o.dtype = parse_dtype(dtype);
  if (o.transport == comm::TransportKind::nccl && o.device.type == DeviceType::cpu)
    fail_input(
        "--transport nccl: is for tensors on GPUs; expected auto, shm or gloo with --device cpu");
  o.padded = o.padded || o.per_column();
  if (o.data.empty()) check_loss_options(o.loss_options, {&cli::parse_loss(o.loss)});
  return o;
}

}  // namespace ringlet::bench
