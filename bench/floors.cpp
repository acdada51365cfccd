#include "floors.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <vector>

#include "ringlet/core/backend.h"
#include "ringlet/core/ops/attention.h"
#include "ringlet/core/ops/combine.h"
#include "ringlet/core/ops/cross_entropy.h"
#include "ringlet/core/ops/elementwise.h"
#include "ringlet/core/ops/embedding.h"
#include "ringlet/core/ops/fill.h"
#include "ringlet/core/ops/index.h"
#include "ringlet/core/ops/layer_norm.h"
#include "ringlet/core/ops/matmul.h"
#include "ringlet/core/ops/normalize.h"
#include "ringlet/core/ops/optimizer.h"
#include "ringlet/core/ops/pooling.h"
#include "ringlet/core/ops/random.h"
#include "ringlet/core/ops/reduce.h"

namespace ringlet::bench {
namespace {

double bytes_of(std::int64_t n, DType dtype) {
  return static_cast<double>(n) * static_cast<double>(itemsize(dtype));
}
DType wide(DType dtype) { return dtype == DType::f64 ? DType::f64 : DType::f32; }
double times(const void* pointer) { return pointer ? 1 : 0; }
double reads(double beta) { return beta == 0 ? 0 : 1; }

template <class T>
std::vector<T> on_host(const T* values, std::int64_t n, Device device) {
  std::vector<T> out(static_cast<std::size_t>(n));
  backend(device.type).copy(out.data(), Device{}, values, device, out.size() * sizeof out[0]);
  return out;
}

// ---- products -----------------------------------------------------------------------------

// The number of tokens varies with the step. It is the rows of A, or the depth if A is transposed.
std::string label(const MatmulArgs& x) {
  const auto sizes =
      x.trans_a ? fmt::format("{}x{}xT", x.m, x.n) : fmt::format("Tx{}x{}", x.n, x.k);
  return fmt::format("matmul {}{} {}{}{}{}", x.trans_a ? 'T' : 'N', x.trans_b ? 'T' : 'N', sizes,
                     x.bias ? " + bias" : "", x.pre_activation ? ", gelu" : "",
                     x.a_sums ? ", sums" : "");
}

// On a GPU a parameter that counts as rounded is cached rounded; most products read the cached
// copy.
DType dtype_read(const MatmulArgs& x, Device device) {
  const bool kept = device.type == DeviceType::cuda && (x.round_b || x.keep_b);
  return kept ? x.dtype : x.b_dtype;
}

Floor least(const MatmulArgs& x, Device device) {
  const std::int64_t a = x.a_stride == 0 ? 1 : x.batch, b = x.b_stride == 0 ? 1 : x.batch;
  const double out = bytes_of(x.batch * x.m * x.n, x.out_dtype);
  return {label(x), 2.0 * static_cast<double>(x.batch * x.m) * static_cast<double>(x.n * x.k),
          bytes_of(a * x.m * x.k, x.a_dtype) + bytes_of(b * x.n * x.k, dtype_read(x, device)) +
              out * (1 + times(x.pre_activation) + reads(x.beta)) +
              times(x.bias) * bytes_of(x.n, wide(x.dtype)) +
              times(x.a_sums) * (1 + reads(x.a_sums_beta)) * bytes_of(x.m, wide(x.dtype)),
          x.dtype};
}

Floor least(const SumRowsArgs& x) {
  return {"", 0, bytes_of(x.m * x.n, x.dtype) + (1 + reads(x.beta)) * bytes_of(x.n, wide(x.dtype))};
}

Floor least(const GeluBackwardArgs& x) { return {"", 0, 3 * bytes_of(x.n, x.dtype)}; }

// ---- attention ----------------------------------------------------------------------------

// Q K^T of all heads, 2 flops per pair of tokens and column.
double score_flops(const AttentionShape& x, Device device) {
  const std::vector<std::int32_t> ends = on_host(x.cu_seqlens, x.sentences + 1, device);
  double squares = 0;
  for (std::size_t s = 1; s < ends.size(); ++s) {
    const double length = ends[s] - ends[s - 1];
    squares += length * length;
  }
  return 2 * squares * static_cast<double>(x.heads * x.head_size);
}

Floor least(const AttentionArgs& x, Device device) {
  const AttentionShape& s = x.shape;
  return {"", 2 * score_flops(s, device),
          4 * bytes_of(s.tokens * s.heads * s.head_size, s.dtype) +
              bytes_of(s.tokens * s.heads, wide(s.dtype)),
          s.dtype};
}

// The scores again, and the gradients of scores, values, queries and keys.
Floor least(const AttentionBackwardArgs& x, Device device) {
  const AttentionShape& s = x.shape;
  return {"", 5 * score_flops(s, device),
          7 * bytes_of(s.tokens * s.heads * s.head_size, s.dtype) +
              bytes_of(s.tokens * s.heads, wide(s.dtype)),
          s.dtype};
}

// ---- rows ---------------------------------------------------------------------------------

Floor least(const LayerNormArgs& x) {
  const double arrays = 2 + times(x.residual) + times(x.normalized);
  return {x.residual ? "residual_dropout_layer_norm" : "", 0,
          arrays * bytes_of(x.rows * x.columns, x.dtype)};
}

Floor least(const LayerNormBackwardArgs& x) {
  const double arrays = 2 + times(x.grad_x) + times(x.grad_residual);
  const char* const label = x.mean ? ""
                            : x.output_dropout.threshold > 0
                                ? "layer_norm_dropout_backward"
                                : "residual_dropout_layer_norm_backward";
  return {label, 0, arrays * bytes_of(x.rows * x.columns, x.dtype)};
}

double rows_read(const std::int32_t* ids, std::int64_t tokens, Device device) {
  const std::vector<std::int32_t> all = on_host(ids, tokens, device);
  return static_cast<double>(std::set<std::int32_t>(all.begin(), all.end()).size());
}

Floor least(const EmbeddingArgs& x, Device device) {
  return {"", 0,
          bytes_of(x.tokens * x.columns, x.dtype) +
              rows_read(x.ids, x.tokens, device) * bytes_of(x.columns, wide(x.dtype))};
}

// Without accumulation the whole gradient is written.
Floor least(const EmbeddingBackwardArgs& x, Device device) {
  const double rows =
      x.beta == 0 ? static_cast<double>(x.rows) : 2 * rows_read(x.ids, x.tokens, device);
  return {"", 0,
          bytes_of(x.tokens * x.columns, x.dtype) + rows * bytes_of(x.columns, wide(x.dtype))};
}

Floor least(const EmbeddingSumArgs& x, Device device) {
  double bytes = 2 * bytes_of(x.tokens * x.columns, x.dtype);
  for (int i = 0; i < 3; ++i)
    if (x.table[i])
      bytes += rows_read(x.ids[i], x.tokens, device) * bytes_of(x.columns, wide(x.dtype));
  return {"", 0, bytes};
}

template <class Args>
Floor pooled(const Args& x, Device device) {
  const std::int64_t tokens = on_host(x.cu_seqlens + x.sentences, 1, device)[0];
  return {"", 0,
          bytes_of(tokens * x.columns, x.dtype) + bytes_of(x.sentences * x.columns, wide(x.dtype))};
}
Floor least(const PoolingArgs& x, Device device) { return pooled(x, device); }
Floor least(const PoolingBackwardArgs& x, Device device) { return pooled(x, device); }

Floor least(const NormalizeArgs& x) { return {"", 0, 2 * bytes_of(x.rows * x.columns, x.dtype)}; }
Floor least(const NormalizeBackwardArgs& x) {
  return {"", 0, 3 * bytes_of(x.rows * x.columns, x.dtype)};
}
Floor least(const CrossEntropyArgs& x) { return {"", 0, bytes_of(x.rows * x.classes, x.dtype)}; }
Floor least(const CrossEntropyBackwardArgs& x) {
  return {"", 0, 2 * bytes_of(x.rows * x.classes, x.dtype)};
}
Floor least(const DropoutArgs& x) { return {"", 0, 2 * bytes_of(x.rows * x.columns, x.dtype)}; }

// ---- elements -----------------------------------------------------------------------------

Floor least(const UnaryArgs& x) { return {"", 0, 2 * bytes_of(x.n, x.dtype)}; }
Floor least(const BinaryArgs& x) {
  std::int64_t n = 1;
  for (int i = 0; i < x.plan.dim; ++i) n *= x.plan.size[i];
  return {"", 0, 3 * bytes_of(n, x.dtype)};
}
Floor least(const AxpbyArgs& x) { return {"", 0, (2 + reads(x.beta)) * bytes_of(x.n, x.dtype)}; }
Floor least(const FillArgs& x) { return {"", 0, bytes_of(x.n, x.dtype)}; }
Floor least(const CastArgs& x) {
  return {"", 0, bytes_of(x.n, x.in_dtype) + bytes_of(x.n, x.out_dtype)};
}
Floor least(const CopyBlocksArgs& x) {
  return {"", 0, 2 * static_cast<double>(x.count * x.nbytes)};
}
Floor least(const GatherArgs& x) {
  return {"", 0, 2 * static_cast<double>(x.outer * x.n * x.inner * x.itemsize)};
}
Floor least(const ReduceArgs& x) {
  return {"", 0, bytes_of(x.outer * x.inner * (x.n + 1), x.dtype)};
}
Floor least(const CombineArgs& x) { return {"", 0, (x.count + 1) * bytes_of(x.n, x.dtype)}; }

// ---- parameters ---------------------------------------------------------------------------

// Elements of a run of n that are in a segment; the others are not read.
std::int64_t updated(const StepSegments& segments, std::int64_t n, Device device) {
  std::int64_t all = 0;
  for (const StepSegment& one : on_host(segments.table, segments.count, device))
    all += std::min(one.end, n) - one.begin;
  return all;
}

// Arrays of the weights' dtype, and the rounded weights.
double moved(std::int64_t n, double arrays, DType dtype, const void* rounded) {
  return arrays * bytes_of(n, dtype) + times(rounded) * bytes_of(n, DType::bf16);
}

// Reads the gradient, reads and writes the weight and both moments.
Floor least(const AdamWArgs& x, Device device) {
  return {"", 0, moved(updated(x.segments, x.n, device), 7, x.dtype, x.rounded)};
}
Floor least(const SGDArgs& x, Device device) {
  const double arrays = 3 + 2 * times(x.momentum_buffer);
  return {"", 0, moved(updated(x.segments, x.n, device), arrays, x.dtype, x.rounded)};
}
Floor least(const SquaredNormArgs& x) { return {"", 0, bytes_of(x.n, x.dtype)}; }

// ---- by name ------------------------------------------------------------------------------

using FloorOf = Floor (*)(const void* args, Device device);
class Floors {
 public:
  Floors() {
    add(matmul_kernel), add(sum_rows_kernel), add(gelu_backward_kernel);
    add(attention_kernel), add(attention_backward_kernel);
    add(layer_norm_kernel), add(layer_norm_backward_kernel);
    add(embedding_kernel), add(embedding_backward_kernel), add(embedding_sum_layer_norm_kernel);
    add(pooling_kernel), add(pooling_backward_kernel);
    add(normalize_kernel), add(normalize_backward_kernel);
    add(cross_entropy_kernel), add(cross_entropy_backward_kernel), add(dropout_kernel);
    add(unary_kernel), add(binary_kernel), add(axpby_kernel), add(fill_kernel), add(cast_kernel);
    add(copy_blocks_kernel), add(gather_kernel), add(reduce_kernel), add(combine_kernel);
    add(adamw_kernel), add(sgd_kernel), add(squared_norm_kernel);
  }
  FloorOf find(const std::string& kernel) const {
    const auto found = by_name_.find(kernel);
    return found == by_name_.end() ? nullptr : found->second;
  }

 private:
  template <class Args>
  void add(const Kernel<Args>& kernel) {
    by_name_[kernel.name()] = [](const void* args, [[maybe_unused]] Device device) {
      const Args& x = *static_cast<const Args*>(args);
      if constexpr (requires { least(x, device); })
        return least(x, device);
      else
        return least(x);
    };
  }
  std::map<std::string, FloorOf> by_name_;
};

}  // namespace

Floor floor_of(const std::string& kernel, const void* args, Device device) {
  static const Floors floors;
  const FloorOf function = floors.find(kernel);
  Floor floor = function ? function(args, device) : Floor{};
  if (floor.label.empty()) floor.label = kernel;
  return floor;
}

}  // namespace ringlet::bench
