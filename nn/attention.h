// Multi-head self-attention with its projections, over packed sentences.
#pragma once

#include <functional>
#include <string>

#include "ringlet/autograd/functions.h"
#include "ringlet/nn/linear.h"
#include "ringlet/nn/replace.h"

namespace ringlet::nn {

struct SelfAttentionOptions {
  std::int64_t heads = 1;
  double dropout = 0;  // of the attention weights
  /// The names of the projections: parameters NAME.weight (H, H) and NAME.bias (H).
  std::string query = "query";
  std::string key = "key";
  std::string value = "value";
  std::string output = "output";
  /// Initial values of a weight with this shape; fan_in_uniform if not given.
  std::function<Tensor(const Shape&)> init = {};
};

/// x (T, H) -> (T, H): every token attends to the tokens of its sentence. Each projection may be
/// replaced by a UnaryModule (nn::replace); until then query, key and value are one product.
class SelfAttention final : public Layer<SelfAttention, Replaceable>, public Sliceable {
 public:
  SelfAttention(std::int64_t size, SelfAttentionOptions options);
  const char* kind() const override { return "SelfAttention"; }
  bool only_multiplied(const Parameter& parameter) const override { return parameter.dim() == 2; }

  /// The sentences of a forward, as in core's AttentionOptions.
  struct Sentences {
    Tensor cu_seqlens;         // (S + 1) i32, where sentences start
    Tensor sentence_ids{};     // (S) i32, counters of the dropout masks; undefined: 0..S-1
    Tensor lengths{};          // (S) i32, real tokens of each; undefined: no padding
    std::int64_t tokens = -1;  // of all ranks, see LayerSlices::inputs
  };
  /// relative_bias (32, heads) by relative_position_bucket, or undefined. `open_bias` is as for
  /// Linear, that of the output projection.
  Variable forward(const Variable& x, const Sentences& sentences,
                   const Variable& relative_bias = {}, Variable* open_bias = nullptr);

  /// By heads, while no projection is replaced. A slice of several ranks gets its columns of the
  /// relative bias.
  std::int64_t pieces(SliceKind kind) const override;
  void slice(SliceKind kind, const SlicesPtr& slices, const Cut& cut) override;

 private:
  Variable project(const Variable& x);  // (T, H) -> (T, 3H)
  Variable in_slices(const Variable& x, const Sentences& sentences, const Variable& relative_bias);
  AttentionOptions options(const Sentences& sentences) const;
  // The three weights come first, then the three biases: in an arena they are one (3H, H) matrix
  // and one (3H) vector. A layer that replaces a projection owns its parameters from then on.
  Parameter query_weight_, key_weight_, value_weight_;
  Parameter query_bias_, key_bias_, value_bias_;
  Parameter output_weight_, output_bias_;
  std::shared_ptr<UnaryModule> query_, key_, value_, output_;  // empty until replaced
  std::int64_t heads_;
  double dropout_;
  SlicesPtr slices_;
};

}  // namespace ringlet::nn
