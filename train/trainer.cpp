#include "ringlet/train/trainer.h"

#include "ringlet/train/parallel/memory_need.h"
#include "ringlet/train/sentence_task.h"
#include "ringlet/train/training_run.h"

namespace ringlet::train {

Trainer::Trainer(std::unique_ptr<TrainingTask> task, TrainingArguments arguments, comm::Group group)
    : job_{std::move(task), std::move(arguments), std::move(group)} {
  const TrainingArguments& given = job_.arguments;
  check_arguments(given, job_.group);
  nn::Module& module = job_.task->module();
  set_compute_dtype(module, given.dtype);
  job_.total_steps = given.max_steps;
  if (given.max_steps == 0)
    for (std::size_t epoch = 0; epoch < given.epochs; ++epoch)
      job_.total_steps += static_cast<std::int64_t>(job_.task->steps_per_epoch(epoch));
  check_memory_limit(given.strategy, module, job_.group.size(), moments_of(given));
  strategy_ = AttachedStrategy(given.strategy, module, job_.group, given.devices, given.dtype,
                               given.strategy_options);
  job_.task->set_pause(strategy_.paused());
}

Trainer::Trainer(models::Loss& loss, Datasets datasets, const models::Tokenizer& tokenizer,
                 TrainingArguments arguments, comm::Group group)
    : Trainer(std::make_unique<SentenceTask>(loss, std::move(datasets), tokenizer,
                                             loader_options(arguments, group)),
              arguments, group) {}

void Trainer::stop(bool save) {
  RINGLET_CHECK(!save || !job_.arguments.output.empty(),
                "[trainer] there is no output folder for a checkpoint");
  job_.stopped = true;
  job_.save_at_stop = job_.save_at_stop || save;
}

TrainingResult Trainer::train() {
  job_.stopped = job_.save_at_stop = false;
  return TrainingRun(job_)();
}

}  // namespace ringlet::train
