// A training step as its ranks execute it, for `ringlet explain ddp` and its like.
#include <fmt/format.h>

#include <mutex>

#include "ringlet/autograd/functions.h"
#include "ringlet/comm/engine.h"
#include "ringlet/comm/launch.h"
#include "ringlet/comm/membership.h"
#include "ringlet/nn/linear.h"
#include "ringlet/train/cli/schedule_pictures.h"
#include "ringlet/train/optimizer/update_rules.h"
#include "ringlet/train/parallel/model/attached_strategy.h"
#include "ringlet/train/parallel/model/tensor_parallel.h"

namespace ringlet::cli {
namespace {

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

}  // namespace

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

}  // namespace ringlet::cli
