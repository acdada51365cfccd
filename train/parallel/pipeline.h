// Executes a pipeline's schedule: the stages of this rank, and the messages between the ranks.
//
// Every rank knows the sizes of all messages, since all ranks draw the same batches. A step has the
// gradients of gradient accumulation over the same micro-batches, bit for bit. Each parameter's are
// added in the order of micro-batches under every schedule.
#pragma once

#include <functional>
#include <map>
#include <vector>

#include "ringlet/autograd/split_backward.h"
#include "ringlet/comm/group.h"
#include "ringlet/train/parallel/pipeline_schedule.h"

namespace ringlet::train {

class Pipeline {
 public:
  struct Options {
    PipelineKind kind = PipelineKind::one_f_one_b;
    int micro_batches = 1;
    DType dtype = DType::f32;  // of the messages
    Device device = {};
  };
  /// The output of a micro-batch, or at the last stage its share of the step's loss. `input` is
  /// undefined at the first stage.
  using Forward = std::function<Variable(int micro_batch, const Variable& input)>;
  /// The shape of a stage's input, on any rank.
  using InputShape = std::function<Shape(int stage, int micro_batch)>;

  /// `chunks` are this rank's stages: rank r has stages r, r + size, ... InputError for a shape
  /// that the schedule cannot have.
  Pipeline(comm::Group group, std::vector<Forward> chunks, InputShape input_shape, Options options);

  /// Adds the gradients of a step to the parameters. Returns the sum of the losses, on all ranks.
  double run();

 private:
  /// A micro-batch between forward and the gradients of its weights.
  struct Live {
    Variable input, output;
    autograd::LeafGradients weights;
  };
  enum Lane { activations, gradients };  // a tag each

  void execute(const PipelineAction& action);
  void forward(int stage, int micro_batch);
  void input_gradient(int stage, int micro_batch, bool split);
  void send(Lane lane, const Tensor& message, int stage, int micro_batch);
  Tensor receive(Lane lane, const Shape& shape, int stage, int micro_batch);
  int rank_of(int stage) const { return stage % shape_.ranks; }

  comm::Group group_;
  std::vector<Forward> chunks_;
  InputShape input_shape_;
  Options options_;
  PipelineShape shape_;
  std::vector<PipelineAction> actions_;  // of this rank

  // The state of a step.
  std::map<std::pair<int, int>, Live> live_;                  // by stage and micro-batch
  std::map<std::pair<Lane, int>, std::vector<Tensor>> here_;  // between two stages of this rank
  std::vector<comm::Work> sends_;
  std::vector<Tensor> losses_;
};

}  // namespace ringlet::train
