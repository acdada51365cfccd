// Accelerator: the same loop on one device or many, under every strategy.
//
//   Accelerator accelerator;                    // before the model: it finds the ranks
//   accelerator.prepare(net, optimizer, loader);
//   for (const DigitBatch& batch : loader) {
//     const auto micro_batch = accelerator.accumulate();
//     accelerator.backward(loss(batch));
//     optimizer.step();
//     optimizer.zero_grad();
//   }
#pragma once

#include <filesystem>
#include <iostream>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "ringlet/comm/environment.h"
#include "ringlet/train/data/step_loader.h"
#include "ringlet/train/optimizer/schedule.h"
#include "ringlet/train/parallel/model/attached_strategy.h"
#include "ringlet/train/parallel/no_sync.h"

namespace ringlet::train {

class Optimizer;

struct AcceleratorOptions {
  std::size_t gradient_accumulation_steps = 1;
  /// A loader's batch size is that of all ranks together; if false, of each.
  bool split_batches = false;
  /// Each step's rows are dealt to so many logical ranks, and so are its bits; 0: to the ranks.
  std::size_t logical_ranks = 0;
  /// None: RINGLET_STRATEGY, else none on one rank and ddp over several. dp is InputError: its
  /// devices belong to one process.
  std::optional<Strategy> strategy = {};
  StrategyOptions strategy_options = {};
};

/// Every rank makes one and calls the same functions on it.
class Accelerator {
 public:
  explicit Accelerator(AcceleratorOptions options = {}, comm::Group group = comm::init_from_env());

  /// Takes a module, its optimizer, loaders and a Schedule, in any order and in one call or
  /// several. The strategy is attached to the module, and loaders deal their rows out to the ranks.
  /// The schedule counts updates.
  template <class... Parts>
  void prepare(Parts&&... parts) {
    (take(parts), ...);
  }

  /// To be alive for the rest of an iteration. Until the last batch of a step, gradients then stay
  /// on their ranks, and the optimizer's step() and zero_grad() do nothing.
  [[nodiscard]] std::unique_ptr<NoSync> accumulate() const;
  /// Whether the present batch is the last of its step.
  bool sync_gradients() const { return share_->ends_step; }
  /// `loss` is the mean over this rank's batch, or a models::Loss. The gradients of a step are
  /// those of its mean over all rows of all ranks, also when the last ones are fewer. With more
  /// logical ranks than ranks, one call for each batch.
  void backward(const Variable& loss);
  /// The optimizer's next steps clip the global norm to `max_norm`; its grad_norm() is the norm
  /// before. 0: no clipping.
  void clip_grad_norm(double max_norm);

  /// The rows of every rank in rank order, on each of them: (n, ..) -> (sum of n, ..).
  Tensor gather(const Tensor& rows) const;
  /// The same for a tensor with a row for each row of the present batch. Rows that only fill up a
  /// rank's batch are dropped: over an epoch every example comes once. Logical ranks must be a
  /// multiple of the ranks, but under fsdp: others have more batches than their peers.
  Tensor gather_for_metrics(const Tensor& rows) const;

  /// A checkpoint of module, optimizer, the generator, and the positions of the loaders, in the
  /// order of prepare(). Between two steps only.
  void save_state(const std::filesystem::path& folder) const;
  /// Continues from such a checkpoint with the same bits, under any strategy. InputError if the
  /// loaders are more or fewer, or have other data or steps, or if the optimizer has other groups;
  /// then nothing has been changed.
  void load_state(const std::filesystem::path& folder);

  const comm::Group& group() const { return group_; }
  Device device() const { return Device::best(); }
  int num_processes() const { return group_.size(); }
  int process_index() const { return group_.rank(); }
  bool is_main_process() const { return group_.rank() == 0; }
  Strategy strategy() const { return strategy_name_; }

  void wait_for_everyone() const { group_.barrier(); }
  /// Every rank calls work(), the others after rank 0, which may write a file that they read.
  template <class Work>
  void main_process_first(Work&& work) const {
    if (!is_main_process()) wait_for_everyone();
    work();
    if (is_main_process()) wait_for_everyone();
  }
  /// A line on standard output, from rank 0 alone.
  template <class... Values>
  void print(const Values&... values) const {
    if (is_main_process()) std::cout << str(values...) << std::endl;
  }

 private:
  void take(nn::Module& module);
  void take(Optimizer& optimizer);
  void take(StepLoader& loader);
  void take(const Schedule& schedule) { schedule_ = schedule; }
  Optimizer& optimizer() const;
  /// Prepared loaders that still exist.
  std::vector<StepLoader*> loaders() const;
  UpdateArguments saved_arguments() const;
  std::int64_t updates() const;

  AcceleratorOptions options_;
  comm::Group group_;
  Strategy strategy_name_;
  AttachedStrategy strategy_;
  nn::Module* module_ = nullptr;
  Optimizer* optimizer_ = nullptr;
  std::vector<std::pair<StepLoader*, std::weak_ptr<const void>>> loaders_;  // with its lifetime
  std::optional<Schedule> schedule_;
  std::shared_ptr<BatchShare> share_ = std::make_shared<BatchShare>();  // of the present batch
};

}  // namespace ringlet::train
