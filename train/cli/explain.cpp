// `ringlet explain`: what ranks exchange, from the schedules and layouts that a run executes.
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <mutex>

#include "ringlet/autograd/functions.h"
#include "ringlet/comm/engine.h"
#include "ringlet/comm/launch.h"
#include "ringlet/comm/membership.h"
#include "ringlet/comm/observer.h"
#include "ringlet/models/encoder_layer.h"
#include "ringlet/models/folder.h"
#include "ringlet/nn/linear.h"
#include "ringlet/train/checkpoint/snapshot.h"
#include "ringlet/train/cli/commands.h"
#include "ringlet/train/optimizer/update_rules.h"
#include "ringlet/train/parallel/memory_need.h"
#include "ringlet/train/parallel/model/attached_strategy.h"
#include "ringlet/train/parallel/model/tensor_parallel.h"
#include "ringlet/train/parallel/step_traffic.h"

namespace ringlet::cli {
namespace {

// ---- a step of a small model, executed by threads ----

constexpr int kLayers = 3;
constexpr double kBucketMb = 0.125;  // so that each layer has one
constexpr std::int64_t kRows = 8, kWidth = 64, kWide = 256;

struct Block : nn::Layer<Block> {
  std::shared_ptr<nn::Linear> up =
      register_module("up", std::make_shared<nn::Linear>(kWidth, kWide));
  std::shared_ptr<nn::Linear> down =
      register_module("down", std::make_shared<nn::Linear>(kWide, kWidth));
  bool is_unit() const override { return true; }
  Variable forward(const Variable& x) { return x + (*down)(up->forward_gelu(x)); }
};

struct Stack : nn::Layer<Stack> {
  std::vector<std::shared_ptr<Block>> blocks;
  Stack() {
    for (int i = 0; i < kLayers; ++i)
      blocks.push_back(register_module(str("layer", i), std::make_shared<Block>()));
  }
  Variable forward(Variable x) {
    for (const auto& block : blocks) x = (*block)(x);
    return x;
  }
};

/// The computations and collectives of rank 0, a line each.
class Drawing final : public comm::CollectiveObserver {
 public:
  void begins(const comm::Collective& collective, const comm::Membership& rank) override {
    const comm::Call& call = collective.call;
    if (rank.rank == 0 && call.op != comm::Op::barrier)
      add(fmt::format("{:18}{:16}{:>8}", "", comm::name(call.op),
                      static_cast<std::size_t>(call.count) * itemsize(call.dtype)));
  }
  /// A line after those of the collectives that were called before it.
  void moment(const comm::Group& group, const std::string& text) {
    group.barrier();
    if (group.rank() == 0) add(text);
  }
  /// The lines since the last one that begins with `text`.
  std::string since(const std::string& text) const { return lines_.substr(lines_.rfind(text)); }

 private:
  void add(const std::string& line) {
    const std::lock_guard lock(mutex_);
    lines_ += line + "\n";
  }

  std::mutex mutex_;
  std::string lines_;
};

void run_steps(const std::optional<train::Strategy>& strategy, const comm::Group& group,
               Drawing& drawing) {
  Stack stack;
  std::optional<train::AttachedStrategy> attached;
  if (strategy)
    attached.emplace(*strategy, stack, group, std::vector<Device>{}, DType::f32,
                     train::StrategyOptions{.bucket_cap_mb = kBucketMb});
  else
    train::TensorParallel(stack, group, {.columns = {"*.up"}, .rows = {"*.down"}});
  train::AdamW optimizer(stack);
  for (int i = 0; i < kLayers; ++i)
    stack.blocks[static_cast<std::size_t>(i)]->set_hooks(
        {.pre_forward = [&, i](nn::Module&) { drawing.moment(group, str("forward layer ", i)); },
         .post_forward = {},
         .pre_backward = [&,
                          i](nn::Module&) { drawing.moment(group, str("backward layer ", i)); }});
  for (int step = 0; step < 2; ++step) {  // the second one also has what the first one left
    drawing.moment(group, "begin");
    autograd::sum(stack(Variable(ones({kRows, kWidth}), true))).backward();
    drawing.moment(group, "optimizer");
    optimizer.step();
    optimizer.zero_grad();
  }
  drawing.moment(group, "end");
}

/// A line for each computation and collective of a step that ranks execute, as threads. Without a
/// strategy: tensor parallelism.
std::string describe_step(const std::optional<train::Strategy>& strategy, int ranks) {
  Drawing drawing;
  comm::launch([&](const comm::Group& group) { run_steps(strategy, group, drawing); }, ranks,
               {.ranks = comm::Ranks::threads, .group = {.observer = &drawing}});
  const std::string name = !strategy ? "tensor parallelism"
                           : *strategy == train::Strategy::ddp
                               ? fmt::format("ddp with buckets of {} MiB", kBucketMb)
                               : std::string(train::kStrategies(*strategy));
  return fmt::format(
      "A step of {} layers of {} parameters on {} ranks under {}, as rank 0 executes it.\n"
      "A collective is below the computation after which it is called.\n"
      "computation       collective         bytes\n{}",
      kLayers, Block().num_parameters(), ranks, name, drawing.since("begin"));
}

// ---- what ranks send and keep ----

struct ShardingOptions {
  std::string model = "mpnet-base";
  int ranks = 8;
};

/// Its shapes, without memory for its weights.
std::shared_ptr<models::Transformer> blank_model(const std::string& name) {
  const models::BlankWeights without_memory;
  if (!models::names_folder(name))
    return models::Transformer::create(models::EncoderConfig::named(name));
  const models::SentenceSettings settings = models::read_settings(models::cached_folder(name));
  return models::Transformer::create(
      models::EncoderConfig::from_file(settings.transformer / "config.json"));
}

/// The traffic of the rank that sends most.
train::StepTraffic most_traffic(train::Strategy strategy, nn::Module& module, int ranks) {
  train::StepTraffic most;
  for (int rank = 0; rank < ranks; ++rank) {
    const train::StepTraffic one = train::step_traffic(strategy, module, rank, ranks);
    if (one.total() >= most.total()) most = one;
  }
  return most;
}

std::string megabytes(std::size_t bytes) {
  return fmt::format("{:.1f}", static_cast<double>(bytes) * 1e-6);
}

void explain_sharding(const ShardingOptions& options) {
  constexpr int kMoments = 2;  // AdamW's
  const auto model = blank_model(options.model);
  const auto arena = nn::plan(*model);
  const std::int64_t parameters = model->num_parameters();
  fmt::print("{}: {} parameters in {} units, {} MB; {} ranks, f32, AdamW\n\n", options.model,
             parameters, arena->units().size(),
             megabytes(static_cast<std::size_t>(parameters) * sizeof(float)), options.ranks);
  fmt::print(
      "MB of a rank  sent in a step                  kept\n"
      "strategy      gradients  parameters      all  parameters  gradients  optimizer  whole "
      "units      all\n");
  for (const train::Strategy strategy : train::kStrategiesOfRanks) {
    const train::StepTraffic sent = most_traffic(strategy, *model, options.ranks);
    const train::MemoryNeed kept = train::memory_need(strategy, *model, options.ranks, kMoments);
    fmt::print("{:<12}  {:>9}  {:>10}  {:>7}  {:>10}  {:>9}  {:>9}  {:>11}  {:>7}\n",
               train::kStrategies(strategy), megabytes(sent.gradients), megabytes(sent.parameters),
               megabytes(sent.total()), megabytes(kept.parameters), megabytes(kept.gradients),
               megabytes(kept.state), megabytes(kept.whole), megabytes(kept.total()));
  }
  const auto of_shards = [&](int moments) {
    return megabytes(
        train::memory_need(train::Strategy::fsdp, *model, options.ranks, moments).state);
  };
  if (options.ranks > 1)
    fmt::print(
        "\n--redundancy 1 sends {} MB more under a strategy that shards, and keeps up to {} MB "
        "more.\n",
        of_shards(1 + kMoments), of_shards(train::moments_of_copies(kMoments)));
  fmt::print(
      "\nOne batch a step. Activations and the loss's own parameters are not counted. On CPUs "
      "only the rows\nof the word embeddings that a batch uses are sent, if they are fewer.\n");
}

constexpr int kMostDrawn = 4;  // ranks of a step that is executed

void add_sharding(Command& explain, train::Strategy strategy) {
  Command& command = explain.add_command(
      std::string(train::kStrategies(strategy)),
      "A step as ranks execute it; the bytes that a rank sends and keeps, by strategy");
  const auto options = std::make_shared<ShardingOptions>();
  command.add("--model", options->model, models::check_model_name,
              "A folder, or tiny, minilm-l6, bert-base or mpnet-base");
  command.add("-n,--ranks", options->ranks, Range{1, 1024}, "Ranks");
  command.run = [options, strategy] {
    explain_sharding(*options);
    fmt::print("\n{}", describe_step(strategy, std::min(options->ranks, kMostDrawn)));
  };
}

void add_tensor(Command& explain) {
  Command& command =
      explain.add_command("tensor", "A step of tensor parallelism as ranks execute it");
  const auto ranks = std::make_shared<int>(2);
  command.add("-n,--ranks", *ranks, Range{2, kMostDrawn}, "Ranks");
  command.run = [ranks] { fmt::print("{}", describe_step({}, *ranks)); };
}

}  // namespace

void add_explain(Command& program) {
  Command& command =
      program.add_command("explain", "Print what ranks exchange, and what each of them keeps");
  add_explain_schedules(command);
  for (const train::Strategy strategy : train::kStrategiesOfRanks) add_sharding(command, strategy);
  add_tensor(command);
}

}  // namespace ringlet::cli
