#include "ringlet/train/accelerator.h"

#include <algorithm>

#include "ringlet/comm/host.h"
#include "ringlet/comm/rows.h"
#include "ringlet/train/checkpoint/checkpoint.h"
#include "ringlet/train/checkpoint/resume.h"
#include "ringlet/train/optimizer/optimizer.h"

namespace ringlet::train {
namespace {

constexpr const char* kVariable = "RINGLET_STRATEGY";

Strategy choose(const AcceleratorOptions& options, const comm::Group& group) {
  if (options.strategy) return *options.strategy;
  const auto name = comm::environment_variable(kVariable);
  if (!name) return group.size() == 1 ? Strategy::none : Strategy::ddp;
  try {
    return kStrategies.parse(*name);
  } catch (const InputError& error) {
    fail_input(kVariable, ": ", error.what());
  }
}

}  // namespace

Accelerator::Accelerator(AcceleratorOptions options, comm::Group group)
    : options_(std::move(options)),
      group_(std::move(group)),
      strategy_name_(choose(options_, group_)) {
  options_.strategy_options.logical_ranks = static_cast<int>(options_.logical_ranks);
  if (strategy_name_ == Strategy::dp)
    fail_input("strategy dp: an accelerator has one device for each process; expected none or ",
               kStrategies.list_from(Strategy::ddp));
  if (strategy_name_ == Strategy::none && group_.size() > 1)
    fail_input("strategy none: expected one rank, found ", group_.size(), "; several need ",
               kStrategies.list_from(Strategy::ddp));
}

void Accelerator::take(nn::Module& module) {
  RINGLET_CHECK(!module_, "[accelerator] it has a module already");
  strategy_ =
      AttachedStrategy(strategy_name_, module, group_, {}, DType::f32, options_.strategy_options);
  module_ = &module;
  if (optimizer_) optimizer_->skip_without_sync(module);
}

void Accelerator::take(Optimizer& optimizer) {
  RINGLET_CHECK(!optimizer_, "[accelerator] it has an optimizer already");
  optimizer_ = &optimizer;
  if (module_) optimizer.skip_without_sync(*module_);
}

void Accelerator::take(StepLoader& loader) {
  loader.deal(group_, options_.gradient_accumulation_steps, options_.split_batches,
              options_.logical_ranks, traits(strategy_name_).parameters);
  loader.write_share_to(share_);
  loaders_.emplace_back(&loader, loader.lifetime());
}

Optimizer& Accelerator::optimizer() const {
  RINGLET_CHECK(module_ && optimizer_ && !loaders().empty(),
                "[accelerator] prepare a module, its optimizer and a loader first");
  return *optimizer_;
}

std::vector<StepLoader*> Accelerator::loaders() const {
  std::vector<StepLoader*> all;
  for (const auto& [loader, lifetime] : loaders_)
    if (!lifetime.expired() && std::ranges::find(all, loader) == all.end()) all.push_back(loader);
  return all;
}

UpdateArguments Accelerator::saved_arguments() const {
  UpdateArguments all;
  if (!optimizer_->groups().empty()) all["parameter groups"] = optimizer_->groups();
  int number = 0;
  for (const StepLoader* loader : loaders()) {
    ++number;
    for (const auto& [name, value] : loader->arguments())
      all[number == 1 ? name : str("loader ", number, ": ", name)] = value;
  }
  return all;
}

std::int64_t Accelerator::updates() const {
  std::int64_t most = 0;
  for (const auto& parameter : optimizer_->updates()) most = std::max(most, parameter.steps);
  return most;
}

std::unique_ptr<NoSync> Accelerator::accumulate() const {
  if (sync_gradients() || !module_) return nullptr;
  return std::make_unique<NoSync>(*module_, NoSync::AnyModule{});
}

void Accelerator::backward(const Variable& loss) {
  optimizer();
  if (schedule_ && sync_gradients()) optimizer_->set_lr_factor(schedule_->factor(updates()));
  share_->weigh(loss).backward();
  if (share_->ends_rank && !sync_gradients()) end_logical_rank(*module_, share_->counts);
}

void Accelerator::clip_grad_norm(double max_norm) { optimizer().set_max_grad_norm(max_norm); }

Tensor Accelerator::gather(const Tensor& rows) const {
  if (group_.size() == 1) return rows;
  RINGLET_CHECK(rows.dim() > 0, "[gather] expected a tensor of rows, found one of shape ()");
  return comm::all_gather_rows(group_, rows, comm::all_gather_count(group_, rows.size(0)));
}

Tensor Accelerator::gather_for_metrics(const Tensor& rows) const {
  RINGLET_CHECK(options_.logical_ranks % static_cast<std::size_t>(num_processes()) == 0 ||
                    traits(strategy_name_).parameters,
                "[accelerator] gather_for_metrics: ", options_.logical_ranks,
                " logical ranks are no multiple of ", num_processes(), " ranks");
  const bool fills = rows.dim() > 0 && share_->rows < static_cast<std::size_t>(rows.size(0));
  return gather(fills ? rows.slice(0, static_cast<std::int64_t>(share_->rows)) : rows);
}

void Accelerator::save_state(const std::filesystem::path& folder) const {
  TrainerState state;
  RINGLET_CHECK(share_->ends_step, "[accelerator] save_state between two batches of a step");
  Optimizer& stepped = optimizer();
  state.step = updates();
  for (const StepLoader* loader : loaders()) state.more_positions.push_back(loader->position());
  state.position = state.more_positions.front();
  state.more_positions.erase(state.more_positions.begin());
  state.generator = default_generator();
  state.arguments = saved_arguments();
  save_checkpoint(folder, *module_, stepped, state);
}

void Accelerator::load_state(const std::filesystem::path& folder) {
  optimizer();
  check_same_arguments(folder, read_trainer_state(folder).arguments, saved_arguments());
  const TrainerState state = load_checkpoint(folder, *module_, *optimizer_);
  const std::vector<StepLoader*> all = loaders();
  all[0]->seek(state.position);
  for (std::size_t i = 1; i < all.size(); ++i) all[i]->seek(state.more_positions.at(i - 1));
  default_generator() = state.generator;
}

}  // namespace ringlet::train
