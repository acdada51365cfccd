// Training sentence encoders: packed batches of a Loader through a Loss.
#pragma once

#include <memory>
#include <set>

#include "ringlet/models/losses/loss.h"
#include "ringlet/train/data/loader.h"
#include "ringlet/train/evaluators/loss_evaluator.h"
#include "ringlet/train/parallel/model/sentence_pipeline.h"
#include "ringlet/train/step/task.h"

namespace ringlet::train {

/// Makes every Transformer below `module` compute in `dtype`, and with `gradient_checkpointing`
/// recompute its layers in backward. InputError when `dtype` is not f32 or bf16, or a module
/// without Transformers is asked for anything but the defaults.
void set_transformers(nn::Module& module, DType dtype, bool gradient_checkpointing);

class SentenceTask final : public TrainingTask {
 public:
  /// InputError when a batch has fewer rows than the loss needs. `loss` must outlive this.
  SentenceTask(models::Loss& loss, Datasets datasets, const models::Tokenizer& tokenizer,
               LoaderOptions options);

  nn::Module& module() override { return loss_; }
  std::size_t steps_per_epoch(std::size_t epoch) const override;
  void seek(Position position) override { loader_.seek(position); }
  /// Throws, naming them, when parameters of the batch's loss got no gradient.
  StepResult step() override;
  bool use_graphs(std::shared_ptr<StepGraphs> graphs) override;
  /// From now on `pipeline` runs the batches of a step together.
  void use_pipeline(std::shared_ptr<SentencePipeline> pipeline) { pipeline_ = std::move(pipeline); }
  /// Each batch is compared over these ranks; see check_same_rows.
  void set_same_rows(comm::Group group, int rank) {
    same_rows_ = std::move(group);
    rank_ = rank;
  }
  UpdateArguments arguments() const override;
  std::vector<std::string> dataset_names() const override;
  std::vector<EpochRows> epoch_rows(std::size_t epoch) const override;

  /// Evaluates `dataset` with the loss of training data set `like` and this task's limit of tokens.
  /// InputError unless both have the same kind of columns.
  LossEvaluator loss_evaluator(std::shared_ptr<const TextDataset> dataset, std::size_t like,
                               std::string name, std::size_t batch_size) const;

 private:
  const models::PackedBatch& next();
  Variable forward(const models::PackedBatch& on_device);
  Tensor run(const models::PackedBatch& batch);
  void check_rows(std::size_t dataset) const;
  std::int64_t lone_rows(const models::PackedBatch& batch) const;
  void check_reached(const models::PackedBatch& batch);

  models::Loss& loss_;
  models::Tokenizer tokenizer_;
  Loader loader_;
  std::shared_ptr<StepGraphs> graphs_;
  std::shared_ptr<SentencePipeline> pipeline_;
  comm::Group same_rows_;
  int rank_ = 0;                   // of the world
  std::set<std::size_t> checked_;  // data sets with a loss that reaches all it should
};

}  // namespace ringlet::train
