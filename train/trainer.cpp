#include "ringlet/train/trainer.h"

#include "ringlet/train/parallel/memory_need.h"
#include "ringlet/train/sentence_task.h"
#include "ringlet/train/trainer_arguments.h"
#include "ringlet/train/training_run.h"

namespace ringlet::train {

Trainer::Trainer(std::unique_ptr<TrainingTask> task, TrainingArguments arguments, comm::Group group)
    : task_(std::move(task)), arguments_(std::move(arguments)), group_(std::move(group)) {
  check_arguments(arguments_, group_);
  set_compute_dtype(task_->module(), arguments_.dtype);
  total_steps_ = arguments_.max_steps;
  if (total_steps_ == 0)
    for (std::size_t epoch = 0; epoch < arguments_.epochs; ++epoch)
      total_steps_ += static_cast<std::int64_t>(task_->steps_per_epoch(epoch));
  check_memory_limit(arguments_.strategy, task_->module(), group_.size(), moments_of(arguments_));
  strategy_ = AttachedStrategy(arguments_.strategy, task_->module(), group_, arguments_.devices,
                               arguments_.dtype, arguments_.strategy_options);
  task_->set_pause(strategy_.paused());
}

Trainer::Trainer(models::Loss& loss, Datasets datasets, const models::Tokenizer& tokenizer,
                 TrainingArguments arguments, comm::Group group)
    : Trainer(std::make_unique<SentenceTask>(loss, std::move(datasets), tokenizer,
                                             loader_options(arguments, group)),
              arguments, group) {}

void Trainer::stop(bool save) {
  RINGLET_CHECK(!save || !arguments_.output.empty(),
                "[trainer] there is no output folder for a checkpoint");
  stopped_ = true;
  save_at_stop_ = save_at_stop_ || save;
}

TrainingResult Trainer::train() {
  stopped_ = save_at_stop_ = false;
  return Run(*this)();
}

}  // namespace ringlet::train
