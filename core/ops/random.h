// Random tensors and dropout, counted by position (core/base/philox.h). Draws are the same for
// every dtype, up to rounding, and have the same bits on every instruction set. Across C libraries
// the last bit of normal() may differ, as it calls log, sin and cos in f64.
#pragma once

#include "ringlet/core/device/kernel.h"
#include "ringlet/core/tensor/random.h"
#include "ringlet/core/tensor/tensor.h"

namespace ringlet {

enum class RandomDistribution { uniform, normal };

/// Element i comes from word i % 4 of the block at counter (i / 4 low, i / 4 high, 0, 0).
struct RandomArgs {
  void* out;  // (n)
  std::int64_t n;
  RandomDistribution distribution;
  double first;   // low, or the mean
  double second;  // high, or the standard deviation
  PhiloxKey key;
  DType dtype;
};
extern OpKernel<RandomArgs> random_kernel;

/// A DropoutKey (core/base/philox.h) in the form that kernels read; threshold 0 keeps all elements.
struct DropoutMask {
  PhiloxKey key;
  std::uint32_t threshold;
  double scale;
  const PhiloxKey* key_at;  // in device memory, replaces `key`; may be null
};
/// The key with which kernels draw.
RINGLET_HOST_DEVICE PhiloxKey key_of(const DropoutMask& dropout) {
  if (!dropout.key_at) return dropout.key;
#if defined(__CUDA_ARCH__)
  return {{__ldg(&dropout.key_at->word[0]), __ldg(&dropout.key_at->word[1])}};
#else
  return *dropout.key_at;
#endif
}
/// Throws "[op] ..." unless 0 <= p < 1.
DropoutMask dropout_of(const char* op, const DropoutKey& key);
/// The same of attention weights: the threshold's lower half is 0. InputError for a p > 0 that
/// would become 0.
DropoutMask weight_dropout(const char* op, const DropoutKey& key);

/// Dropout of rows of activations.
struct RowDropout : DropoutMask {
  const std::int32_t* positions;  // (R, 2): sentence id, token index; null means (row, 0)
};
/// Throws also unless `positions` is undefined or (rows, 2) i32.
RowDropout row_dropout(const char* op, const DropoutKey& key, const Tensor& positions,
                       std::int64_t rows);

struct DropoutArgs {
  void* out;       // (rows, columns)
  const void* in;  // (rows, columns)
  std::int64_t rows;
  std::int64_t columns;
  RowDropout dropout;
  DType dtype;
};
extern OpKernel<DropoutArgs> dropout_kernel;

/// low + (high - low) u with u in [0, 1) a multiple of 2^-24. Draws from `generator`.
Tensor uniform(Shape shape, double low = 0, double high = 1, DType dtype = DType::f32,
               Device device = default_device(), RandomGenerator& generator = default_generator());
/// Box-Muller, not truncated.
Tensor normal(Shape shape, double mean = 0, double std = 1, DType dtype = DType::f32,
              Device device = default_device(), RandomGenerator& generator = default_generator());

/// x (.., C) as rows of C columns; `positions` (R, 2) i32 are the rows' sentence ids and token
/// indices, (row, 0) if undefined. The gradient is the same op on the output's gradient. Throws
/// unless 0 <= p < 1. Floating dtypes.
Tensor dropout(const Tensor& x, const DropoutKey& key, const Tensor& positions = {});

}  // namespace ringlet
