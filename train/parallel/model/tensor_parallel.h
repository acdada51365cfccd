// Tensor parallelism (Megatron-LM): the layers of one model cut over ranks that all compute the
// same batch.
//
//   TensorParallel tensor(loss, group, encoder_tensor_plan(encoder.config()));
//   AdamW optimizer(loss);  // and DistributedDataParallel, for example, over other ranks, before
//   loss(batch).backward();
#pragma once

#include <string>
#include <vector>

#include "ringlet/comm/group.h"
#include "ringlet/models/config.h"
#include "ringlet/nn/module.h"

namespace ringlet::train {

/// Patterns of names, as nn::replace reads them. Each must name something.
struct TensorPlan {
  std::vector<std::string> columns = {};     // nn::Linear, cut by output features
  std::vector<std::string> rows = {};        // nn::Linear that reads the output of such a layer
  std::vector<std::string> heads = {};       // modules with an nn::SelfAttention
  std::vector<std::string> vocabulary = {};  // modules with a table of words
  std::vector<std::string> by_head = {};     // parameters (.., heads) that attention reads
};

/// Attention by heads and the two dense layers of every encoder layer. With `vocabulary` also the
/// table of words, for its memory: that adds an all-reduce of (T, H) to each forward.
TensorPlan encoder_tensor_plan(const models::EncoderConfig& config, bool vocabulary = false);

struct TensorParallelOptions {
  /// The reference mode: one rank computes this many slices and adds them in order. It has the bits
  /// of as many ranks. Parameters stay whole.
  int slices = 1;
  /// Sequence parallelism (Korthikanti et al. 2022): between the blocks of an encoder a rank has
  /// its near-equal share of the tokens.
  bool sequence = false;
};

/// Rank r of n keeps slice r of each cut parameter, with its gradient and optimizer state, and a
/// copy of every other one. An encoder's layer has two all-reduces of its activations (T, H) in
/// forward and two in backward: a rank sends 8 (n - 1) / n x their bytes.
///
/// With `sequence` each all-reduce becomes a reduce-scatter behind a block and an all-gather before
/// the next, of the same bytes; the two ends of an encoder, or of each pipeline stage, add
/// 2 (n - 1) / n. Gradients of LayerNorms and of biases that are added to sums are all-reduced. A
/// layer keeps 2 + 14 / n tensors (T, H) for backward instead of 4 + 12 / n: the gathered inputs of
/// its products are kept, not gathered again. If layers are recomputed, it keeps 1 / n instead
/// of 1.
///
/// All ranks get the values of rank 0. They must make the same calls with the same batches, and a
/// strategy over other ranks may be attached afterwards. Names of parameters, folders and
/// checkpoints are as without it. The module stays cut when this object is destroyed.
///
/// InputError, with nothing changed, for a pattern that names nothing and for ranks that do not
/// divide the heads. Error after an optimizer or a strategy was made.
class TensorParallel {
 public:
  using Options = TensorParallelOptions;
  TensorParallel(nn::Module& module, comm::Group group, const TensorPlan& plan,
                 Options options = {});
};

}  // namespace ringlet::train
