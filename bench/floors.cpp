#include "floors.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>
#include <numeric>
#include <set>
#include <type_traits>
#include <vector>

#include "ringlet/core/device/backend.h"
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
Floor product(const MatmulArgs& x, Device device) {
  const std::int64_t a = x.a_stride == 0 ? 1 : x.batch, b = x.b_stride == 0 ? 1 : x.batch;
  const bool cached = device.type == DeviceType::cuda && (x.round_b || x.keep_b);
  return {2.0 * static_cast<double>(x.batch * x.m) * static_cast<double>(x.n * x.k),
          bytes_of(a * x.m * x.k, x.a_dtype) +
              bytes_of(b * x.n * x.k, cached ? x.dtype : x.b_dtype) +
              bytes_of(x.batch * x.m * x.n, x.out_dtype) *
                  (1 + times(x.pre_activation) + reads(x.beta)) +
              times(x.bias) * bytes_of(x.n, wide(x.dtype)) +
              times(x.a_sums) * (1 + reads(x.a_sums_beta)) * bytes_of(x.m, wide(x.dtype)),
          x.dtype, label(x)};
}

// So many products of all queries with all keys, 2 flops per pair of tokens and column.
Floor attention_floor(const AttentionShape& x, double products, double arrays, Device device) {
  const std::vector<std::int32_t> ends = on_host(x.cu_seqlens, x.sentences + 1, device);
  double squares = 0;
  for (std::size_t s = 1; s < ends.size(); ++s) {
    const double length = ends[s] - ends[s - 1];
    squares += length * length;
  }
  return {products * 2 * squares * static_cast<double>(x.heads * x.head_size),
          arrays * bytes_of(x.tokens * x.heads * x.head_size, x.dtype) +
              bytes_of(x.tokens * x.heads, wide(x.dtype)),
          x.dtype, ""};
}

const char* label(const LayerNormBackwardArgs& x) {
  if (x.mean) return "";
  return x.output_dropout.threshold > 0 ? "layer_norm_dropout_backward"
                                        : "residual_dropout_layer_norm_backward";
}

double rows_read(const std::int32_t* ids, std::int64_t tokens, Device device) {
  const std::vector<std::int32_t> all = on_host(ids, tokens, device);
  return static_cast<double>(std::set<std::int32_t>(all.begin(), all.end()).size());
}

// So many arrays of the elements of a run that are in a segment, and the rounded weights.
template <class Args>
double updated(const Args& x, double arrays, Device device) {
  std::int64_t n = 0;
  for (const StepSegment& one : on_host(x.segments.table, x.segments.count, device))
    n += std::min(one.end, x.n) - one.begin;
  return arrays * bytes_of(n, x.dtype) + times(x.rounded) * bytes_of(n, DType::bf16);
}

template <class Args>
double pooled(const Args& x, Device device) {
  const std::int64_t tokens = on_host(x.cu_seqlens + x.sentences, 1, device)[0];
  return bytes_of(tokens * x.columns, x.dtype) + bytes_of(x.sentences * x.columns, wide(x.dtype));
}

/// Bytes of so many arrays (rows, columns).
template <class Args>
double arrays(const Args& x, double count) {
  return count * bytes_of(x.rows * x.columns, x.dtype);
}

using FloorOf = std::function<Floor(const void* args, Device device)>;

/// `least(args, device)` gives a Floor, or bytes alone.
template <class Args, class Least>
std::pair<const std::string, FloorOf> entry(const Kernel<Args>& kernel, Least least) {
  return {kernel.name(), [least](const void* args, Device device) -> Floor {
            const auto floor = least(*static_cast<const Args*>(args), device);
            if constexpr (std::is_same_v<decltype(floor), const Floor>)
              return floor;
            else
              return {0, floor, DType::f32, ""};
          }};
}

const std::map<std::string, FloorOf>& floors() {
  static const std::map<std::string, FloorOf> all{
      entry(matmul_kernel, product),
      entry(sum_rows_kernel,
            [](const auto& x, Device) {
              return bytes_of(x.m * x.n, x.dtype) +
                     (1 + reads(x.beta)) * bytes_of(x.n, wide(x.dtype));
            }),
      entry(gelu_backward_kernel, [](const auto& x, Device) { return 3 * bytes_of(x.n, x.dtype); }),
      entry(attention_kernel,
            [](const auto& x, Device d) { return attention_floor(x.shape, 2, 4, d); }),
      // The scores again, and the gradients of scores, values, queries and keys.
      entry(attention_backward_kernel,
            [](const auto& x, Device d) { return attention_floor(x.shape, 5, 7, d); }),
      entry(layer_norm_kernel,
            [](const auto& x, Device) -> Floor {
              return {0, arrays(x, 2 + times(x.residual) + times(x.normalized)), DType::f32,
                      x.residual ? "residual_dropout_layer_norm" : ""};
            }),
      entry(layer_norm_backward_kernel,
            [](const auto& x, Device) -> Floor {
              return {0, arrays(x, 2 + times(x.grad_x) + times(x.grad_residual)), DType::f32,
                      label(x)};
            }),
      entry(embedding_kernel,
            [](const auto& x, Device d) {
              return bytes_of(x.tokens * x.columns, x.dtype) +
                     rows_read(x.ids, x.tokens, d) * bytes_of(x.columns, wide(x.dtype));
            }),
      // Without accumulation the whole gradient is written.
      entry(embedding_backward_kernel,
            [](const auto& x, Device d) {
              const double rows =
                  x.beta == 0 ? static_cast<double>(x.rows) : 2 * rows_read(x.ids, x.tokens, d);
              return bytes_of(x.tokens * x.columns, x.dtype) +
                     rows * bytes_of(x.columns, wide(x.dtype));
            }),
      entry(embedding_sum_layer_norm_kernel,
            [](const auto& x, Device d) {
              double rows = 0;
              for (int i = 0; i < 3; ++i)
                if (x.table[i]) rows += rows_read(x.ids[i], x.tokens, d);
              return 2 * bytes_of(x.tokens * x.columns, x.dtype) +
                     rows * bytes_of(x.columns, wide(x.dtype));
            }),
      entry(pooling_kernel, pooled<PoolingArgs>),
      entry(pooling_backward_kernel, pooled<PoolingBackwardArgs>),
      entry(normalize_kernel, [](const auto& x, Device) { return arrays(x, 2); }),
      entry(normalize_backward_kernel, [](const auto& x, Device) { return arrays(x, 3); }),
      entry(cross_entropy_kernel,
            [](const auto& x, Device) { return bytes_of(x.rows * x.classes, x.dtype); }),
      entry(cross_entropy_backward_kernel,
            [](const auto& x, Device) { return 2 * bytes_of(x.rows * x.classes, x.dtype); }),
      entry(dropout_kernel, [](const auto& x, Device) { return arrays(x, 2); }),
      entry(unary_kernel, [](const auto& x, Device) { return 2 * bytes_of(x.n, x.dtype); }),
      entry(binary_kernel,
            [](const auto& x, Device) {
              return 3 * bytes_of(std::accumulate(x.plan.size, x.plan.size + x.plan.dim,
                                                  std::int64_t{1}, std::multiplies<>()),
                                  x.dtype);
            }),
      entry(axpby_kernel,
            [](const auto& x, Device) { return (2 + reads(x.beta)) * bytes_of(x.n, x.dtype); }),
      entry(fill_kernel, [](const auto& x, Device) { return bytes_of(x.n, x.dtype); }),
      entry(cast_kernel,
            [](const auto& x, Device) {
              return bytes_of(x.n, x.in_dtype) + bytes_of(x.n, x.out_dtype);
            }),
      entry(copy_blocks_kernel,
            [](const auto& x, Device) { return 2.0 * static_cast<double>(x.count * x.nbytes); }),
      entry(gather_kernel,
            [](const auto& x, Device) {
              return 2.0 * static_cast<double>(x.outer * x.n * x.inner * x.itemsize);
            }),
      entry(reduce_kernel,
            [](const auto& x, Device) { return bytes_of(x.outer * x.inner * (x.n + 1), x.dtype); }),
      entry(combine_kernel,
            [](const auto& x, Device) { return (x.count + 1) * bytes_of(x.n, x.dtype); }),
      // Reads the gradient, reads and writes the weight and both moments.
      entry(adamw_kernel, [](const auto& x, Device d) { return updated(x, 7, d); }),
      entry(sgd_kernel, [](const auto& x,
                           Device d) { return updated(x, 3 + 2 * times(x.momentum_buffer), d); }),
      entry(squared_norm_kernel, [](const auto& x, Device) { return bytes_of(x.n, x.dtype); })};
  return all;
}

}  // namespace

Floor floor_of(const std::string& kernel, const void* args, Device device) {
  const auto found = floors().find(kernel);
  Floor floor = found == floors().end() ? Floor{} : found->second(args, device);
  if (floor.label.empty()) floor.label = kernel;
  return floor;
}

}  // namespace ringlet::bench
