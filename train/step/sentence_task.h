// Training sentence encoders.
#pragma once

#include <memory>
#include <set>

#include "ringlet/models/losses/loss.h"
#include "ringlet/train/data/loader.h"
#include "ringlet/train/evaluators/example_evaluator.h"
#include "ringlet/train/parallel/model/sentence_pipeline.h"
#include "ringlet/train/step/task.h"

namespace ringlet::train {

/// Makes every Transformer below `module` compute in `dtype`, and with `gradient_checkpointing`
/// recompute its layers in backward. InputError when `dtype` is not f32 or bf16, or a module
/// without Transformers is asked for anything but the defaults.
void set_transformers(nn::Module& module, DType dtype, bool gradient_checkpointing);

/// Packed batches of text through a Loss, perhaps in graphs, or in a pipeline.
class SentenceTask : public Task<models::PackedBatch> {
 public:
  /// InputError when a batch has fewer rows than the loss needs. `loss` must outlive this.
  SentenceTask(models::Loss& loss, Datasets datasets, const models::Tokenizer& tokenizer,
               LoaderOptions options);

  /// Batches of another origin, and a hook around the loss.
  SentenceTask(models::Loss& loss, std::unique_ptr<Loader<models::PackedBatch>> loader,
               const models::Tokenizer& tokenizer, LossHook hook);

  /// From now on `pipeline` runs the batches of a step together.
  void use_pipeline(std::shared_ptr<SentencePipeline> pipeline) { pipeline_ = std::move(pipeline); }
  UpdateArguments arguments() const override;

  /// The mean loss `name` of `dataset`, by the loss of training data set `like` and with this
  /// task's limit of tokens. InputError unless both have the same kind of columns.
  ExampleEvaluator<models::PackedBatch> loss_evaluator(std::shared_ptr<const TextDataset> dataset,
                                                       std::size_t like, std::string name,
                                                       std::size_t batch_size) const;

 protected:
  /// Throws, naming them, when parameters of the batch's loss got no gradient.
  Tensor run() override;

 private:
  void count(StepResult& result) const override;
  bool has_graphs() const override { return true; }
  Tensor run_pipeline();
  void check_rows(std::size_t dataset) const;
  std::int64_t lone_rows(const models::PackedBatch& batch) const;
  void check_reached(const models::PackedBatch& batch);

  models::Loss& loss_;
  models::Tokenizer tokenizer_;
  std::shared_ptr<SentencePipeline> pipeline_;
  std::vector<models::PackedBatch> of_pipeline_;  // the step's
  std::set<std::size_t> checked_;  // data sets with a loss that reaches all it should
};

}  // namespace ringlet::train
