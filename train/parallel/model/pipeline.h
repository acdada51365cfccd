// Executes a pipeline's schedule: the stages of this rank, and the messages between the ranks.
//
// Every rank knows the sizes of all messages, since all ranks draw the same batches. A step has the
// gradients of gradient accumulation over the same micro-batches, bit for bit. Each parameter's are
// added in the order of micro-batches under every schedule.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "ringlet/autograd/split_backward.h"
#include "ringlet/comm/group.h"
#include "ringlet/train/parallel/model/pipeline_schedule.h"
#include "ringlet/train/parallel/no_sync.h"

namespace ringlet::train {

class Pipeline {
 public:
  /// The loss of all micro-batches together, and its gradients, from the last stage's outputs. It
  /// waits for all forwards, as gpipe's backwards do.
  using WholeLoss =
      std::function<Tensor(const std::vector<Tensor>& outputs, std::vector<Tensor>& grads)>;
  struct Options {
    PipelineKind kind = PipelineKind::one_f_one_b;
    int micro_batches = 1;
    Device device = default_device();
    /// The module of this rank's stages, if a strategy is attached to it. That sums gradients in
    /// the last backward of a step that reaches parameters.
    nn::Module* module = nullptr;
    /// Whether a stage has parameters that are trained; empty: each has.
    std::function<bool(int stage)> trains = {};
    WholeLoss whole_loss = {};  // gpipe only; empty: each micro-batch has a share of the loss
    /// Called before each computation of this rank. Its result lives until the computation has
    /// ended.
    std::function<std::shared_ptr<void>(const PipelineAction&, int stage)> scope = {};
  };
  /// A tensor that goes from one stage to the next. Its gradient goes back, in the same dtype.
  struct Message {
    Shape shape;
    DType dtype = DType::f32;
  };
  using Variables = std::vector<Variable>;
  /// The outputs of a micro-batch. At the last stage one: its share of the step's loss, or the
  /// input of whole_loss. The first stage has no inputs.
  using Forward = std::function<Variables(int micro_batch, const Variables& inputs)>;
  /// A stage's inputs, on any rank.
  using Inputs = std::function<std::vector<Message>(int stage, int micro_batch)>;

  /// InputError for a shape or a loss that the schedule cannot have.
  static void check(PipelineKind kind, const PipelineShape& shape, bool whole_loss);
  /// `chunks` are this rank's stages: rank r has stages r, r + size, ... InputError as check().
  Pipeline(comm::Group group, std::vector<Forward> chunks, Inputs inputs, Options options);

  /// Adds the gradients of a step to the parameters. Returns the sum of the losses, on all ranks.
  double run();

 private:
  /// A micro-batch between forward and the gradients of its weights.
  struct Live {
    Variables inputs, outputs;
    autograd::LeafGradients weights;
  };
  enum Lane { activations, gradients };  // a tag each

  const PipelineAction* last_reaching() const;
  void named(const PipelineAction& action, const std::function<void()>& work) const;
  void compute(const PipelineAction& action);
  void forward(int stage, int micro_batch);
  void input_gradient(int stage, int micro_batch, bool split);
  Variable root(int stage, int micro_batch);
  void send(Lane lane, const Tensor& message, DType dtype, int stage, int micro_batch);
  Tensor receive(Lane lane, const Message& message, int stage);
  int rank_of(int stage) const { return stage % shape_.ranks; }
  int stage_of(const PipelineAction& action) const {
    return action.chunk * shape_.ranks + group_.rank();
  }

  comm::Group group_;
  std::vector<Forward> chunks_;
  Inputs inputs_;
  Options options_;
  PipelineShape shape_;
  std::vector<PipelineAction> actions_;  // of this rank

  // The state of a step.
  std::map<std::pair<int, int>, Live> live_;                  // by stage and micro-batch
  std::map<std::pair<Lane, int>, std::vector<Tensor>> here_;  // between two stages of this rank
  std::vector<std::pair<PipelineAction, comm::Work>> sends_;  // of which action
  std::vector<Tensor> losses_;
  std::vector<Tensor> whole_grads_;  // by micro-batch
};

}  // namespace ringlet::train
