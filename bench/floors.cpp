#include "floors.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>
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

std::map<std::string, FloorOf> make_floors() {
  std::map<std::string, FloorOf> all;
  /// `least(args, device)` gives a Floor.
  const auto floor = [&]<class Args>(const OpKernel<Args>& kernel, auto least) {
    all[kernel.name()] = [least](const void* args, Device device) {
      return least(*static_cast<const Args*>(args), device);
    };
  };
  /// `least(args)`, perhaps with the device, gives bytes.
  const auto bytes = [&]<class Args>(const OpKernel<Args>& kernel, auto least) {
    floor(kernel, [least](const Args& x, Device device) -> Floor {
      if constexpr (std::is_invocable_v<decltype(least), const Args&>)
        return {.bytes = least(x)};
      else
        return {.bytes = least(x, device)};
    });
  };
  floor(matmul_kernel, product);
  bytes(sum_rows_kernel, [](const auto& x) {
    return bytes_of(x.m * x.n, x.dtype) + (1 + reads(x.beta)) * bytes_of(x.n, wide(x.dtype));
  });
  bytes(gelu_backward_kernel, [](const auto& x) { return 3 * bytes_of(x.n, x.dtype); });
  floor(attention_kernel,
        [](const auto& x, Device device) { return attention_floor(x.shape, 2, 4, device); });
  // The scores again, and the gradients of scores, values, queries and keys.
  floor(attention_backward_kernel,
        [](const auto& x, Device device) { return attention_floor(x.shape, 5, 7, device); });
  floor(layer_norm_kernel, [](const auto& x, Device) -> Floor {
    return {.bytes = arrays(x, 2 + times(x.residual) + times(x.normalized)),
            .label = x.residual ? "residual_dropout_layer_norm" : ""};
  });
  floor(layer_norm_backward_kernel, [](const auto& x, Device) -> Floor {
    return {.bytes = arrays(x, 2 + times(x.grad_x) + times(x.grad_residual)), .label = label(x)};
  });
  bytes(embedding_kernel, [](const auto& x, Device device) {
    return bytes_of(x.tokens * x.columns, x.dtype) +
           rows_read(x.ids, x.tokens, device) * bytes_of(x.columns, wide(x.dtype));
  });
  // Without accumulation the whole gradient is written.
  bytes(embedding_backward_kernel, [](const auto& x, Device device) {
    const double rows =
        x.beta == 0 ? static_cast<double>(x.rows) : 2 * rows_read(x.ids, x.tokens, device);
    return bytes_of(x.tokens * x.columns, x.dtype) + rows * bytes_of(x.columns, wide(x.dtype));
  });
  bytes(embedding_sum_layer_norm_kernel, [](const auto& x, Device device) {
    double rows = 0;
    for (int i = 0; i < 3; ++i)
      if (x.table[i]) rows += rows_read(x.ids[i], x.tokens, device);
    return 2 * bytes_of(x.tokens * x.columns, x.dtype) + rows * bytes_of(x.columns, wide(x.dtype));
  });
  bytes(pooling_kernel, pooled<PoolingArgs>);
  bytes(pooling_backward_kernel, pooled<PoolingBackwardArgs>);
  bytes(normalize_kernel, [](const auto& x) { return arrays(x, 2); });
  bytes(normalize_backward_kernel, [](const auto& x) { return arrays(x, 3); });
  bytes(cross_entropy_kernel, [](const auto& x) { return bytes_of(x.rows * x.classes, x.dtype); });
  bytes(cross_entropy_backward_kernel,
        [](const auto& x) { return 2 * bytes_of(x.rows * x.classes, x.dtype); });
  bytes(dropout_kernel, [](const auto& x) { return arrays(x, 2); });
  bytes(unary_kernel, [](const auto& x) { return 2 * bytes_of(x.n, x.dtype); });
  bytes(binary_kernel, [](const auto& x) {
    std::int64_t n = 1;
    for (int i = 0; i < x.plan.dim; ++i) n *= x.plan.size[i];
    return 3 * bytes_of(n, x.dtype);
  });
  bytes(axpby_kernel, [](const auto& x) { return (2 + reads(x.beta)) * bytes_of(x.n, x.dtype); });
  bytes(fill_kernel, [](const auto& x) { return bytes_of(x.n, x.dtype); });
  bytes(cast_kernel,
        [](const auto& x) { return bytes_of(x.n, x.in_dtype) + bytes_of(x.n, x.out_dtype); });
  bytes(copy_blocks_kernel,
        [](const auto& x) { return 2.0 * static_cast<double>(x.count * x.nbytes); });
  bytes(gather_kernel, [](const auto& x) {
    return 2.0 * static_cast<double>(x.outer * x.n * x.inner * x.itemsize);
  });
  bytes(reduce_kernel,
        [](const auto& x) { return bytes_of(x.outer * x.inner * (x.n + 1), x.dtype); });
  bytes(combine_kernel, [](const auto& x) { return (x.count + 1) * bytes_of(x.n, x.dtype); });
  // Reads the gradient, reads and writes the weight and both moments.
  bytes(adamw_kernel, [](const auto& x, Device device) { return updated(x, 7, device); });
  bytes(sgd_kernel, [](const auto& x, Device device) {
    return updated(x, 3 + 2 * times(x.momentum_buffer), device);
  });
  bytes(squared_norm_kernel, [](const auto& x) { return bytes_of(x.n, x.dtype); });
  return all;
}

}  // namespace

Floor floor_of(const std::string& kernel, const void* args, Device device) {
  static const std::map<std::string, FloorOf> floors = make_floors();
  const auto found = floors.find(kernel);
  Floor floor = found == floors.end() ? Floor{} : found->second(args, device);
  if (floor.label.empty()) floor.label = kernel;
  return floor;
}

}  // namespace ringlet::bench
