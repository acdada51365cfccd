// A pipeline over the layers of a sentence encoder.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "ringlet/models/losses/embedding_loss.h"
#include "ringlet/models/transformer.h"
#include "ringlet/train/parallel/model/attached_strategy.h"
#include "ringlet/train/parallel/model/pipeline.h"
#include "ringlet/train/parallel/model/pipeline_cut.h"
#include "ringlet/train/parallel/model/stage_sharding.h"

namespace ringlet::train {

/// Stage 0 has the embeddings and MPNet's relative position bias, the last one all that follows the
/// layers: pooling, further modules and the loss. Without gradients, a forward of each rank goes
/// through all stages: all ranks call it together, each with its own batch.
class SentencePipeline final : public models::BatchRunner {
 public:
  /// Releases the parameters of other stages. `loss` must outlive this, and holds one transformer,
  /// which computes in `dtype`. A loss that compares the rows of a step needs schedule gpipe.
  /// `datasets` are those of the loss. InputError, with nothing released, for a schedule or a cut
  /// that does not fit.
  SentencePipeline(models::Loss& loss, std::size_t datasets, int micro_batches,
                   PipelineOptions options, const Mesh& mesh, DType dtype,
                   const nn::UnitPolicy& units);
  ~SentencePipeline() override { transformer_.set_runner(nullptr); }

  /// The strategy over the axis `data` is attached to it, with stage_units(); then start() is
  /// called with that strategy.
  nn::Module& stage() { return sharding_->stage(); }
  nn::UnitPolicy stage_units() const { return sharding_->stage_units(); }
  void start(const AttachedStrategy& strategy);
  int micro_batches() const { return micro_batches_; }
  /// The number of layers of each stage.
  const std::vector<int>& layers() const { return options_.layers; }

  /// Forward and backward of a step's micro-batches, on the CPU; its loss, on all ranks. The bits
  /// are those of gradient accumulation. One batch, as a loss that spans ranks gets it, is cut
  /// here.
  double step(std::vector<models::PackedBatch> batches);

  Variable run(const models::PackedBatch& batch) override;

 private:
  using Variables = Pipeline::Variables;

  Pipeline::Forward forward_of(int stage);
  std::vector<Pipeline::Message> messages(const models::PackedBatch& batch) const;
  Tensor whole_loss(const std::vector<Tensor>& outputs, std::vector<Tensor>& grads);
  Variables run_stages(const models::PackedBatch& batch, int owner, std::vector<comm::Work>& sends);
  int rank_of(std::size_t stage) const { return static_cast<int>(stage) % pipe_.size(); }

  models::Loss& loss_;
  models::Transformer& transformer_;
  models::EmbeddingLoss* whole_;  // the loss, if it compares the rows of a step
  int micro_batches_;
  PipelineOptions options_;
  Mesh mesh_;
  comm::Group pipe_;
  int chunks_;  // stages of a rank: 2 under interleaved-1f1b
  std::vector<models::LayerRange> stages_;
  std::map<const autograd::VariableState*, std::size_t> stage_of_;  // each parameter's
  std::optional<Shape> bias_;  // MPNet's relative position bias
  std::shared_ptr<StageSharding> sharding_;
  std::optional<Pipeline> pipeline_;
  // ---- of the step that is running ----
  std::vector<models::PackedBatch> batches_;  // micro-batches
  models::PackedBatch all_;                   // with whole_
  Variables received_;                        // the last stage's inputs
};

}  // namespace ringlet::train
