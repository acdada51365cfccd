// Moving elements: joining, cutting, permuting, and rows or elements selected by an index. Bytes
// move unchanged, so every dtype works; only sums (scatter_add, index_add) need floats. Axes may be
// negative. Indices are i32 or i64, in [0, size); others throw with the value. A GPU, being
// asynchronous, gathers 0 for them and does not scatter them.
#pragma once

#include <span>
#include <vector>

#include "ringlet/core/device/kernel.h"
#include "ringlet/core/tensor/tensor.h"

namespace ringlet {

/// Copies `count` blocks of `nbytes` bytes; strides are in bytes.
struct CopyBlocksArgs {
  void* out;
  const void* in;
  std::int64_t count;
  std::int64_t nbytes;
  std::int64_t out_stride;
  std::int64_t in_stride;
};
extern OpKernel<CopyBlocksArgs> copy_blocks_kernel;

/// No dimension has size 1, and none can be merged with the next. If there is one, one has
/// in_stride 1.
struct PermuteArgs {
  void* out;  // (sizes[0], …, sizes[dim - 1])
  const void* in;
  int dim;
  std::int64_t sizes[Shape::kMaxDim];
  std::int64_t in_strides[Shape::kMaxDim];  // elements, for the output's dimensions
  std::int64_t itemsize;
};
extern OpKernel<PermuteArgs> permute_kernel;

/// out[o, j, i] = in[o, index[o, j, i], i]; with whole_rows the index is (n) for all o and i.
struct GatherArgs {
  void* out;          // (outer, n, inner)
  const void* in;     // (outer, in_n, inner)
  const void* index;  // (outer, n, inner) or (n)
  std::int64_t outer;
  std::int64_t in_n;
  std::int64_t n;
  std::int64_t inner;
  bool whole_rows;
  std::int64_t itemsize;
  DType index_dtype;
};
extern OpKernel<GatherArgs> gather_kernel;

/// out[o, index[o, j, i], i] += source[o, j, i], j ascending; whole_rows as above.
struct ScatterAddArgs {
  void* out;           // (outer, out_n, inner)
  const void* source;  // (outer, n, inner)
  const void* index;   // (outer, n, inner) or (n)
  std::int64_t outer;
  std::int64_t out_n;
  std::int64_t n;
  std::int64_t inner;
  bool whole_rows;
  DType dtype;
  DType index_dtype;
};
extern OpKernel<ScatterAddArgs> scatter_add_kernel;

/// Throws "[op] index 7 is out of range for size 5".
[[noreturn]] void index_out_of_range(const char* op, std::int64_t index, std::int64_t size);

// ---- joining and cutting --------------------------------------------------------------------

/// Joins tensors along `axis`; all other sizes are equal.
Tensor concat(const std::vector<Tensor>& tensors, int axis);
/// The tensors as one, joined along the outermost dimension, if they are contiguous in one storage;
/// undefined otherwise.
Tensor adjacent(std::span<const Tensor> tensors);
/// Joins tensors of equal shape along a new dimension before `axis`.
Tensor stack(const std::vector<Tensor>& tensors, int axis);
/// Throws unless `sizes` add up to the size of `axis`.
void check_split(const Shape& shape, const std::vector<std::int64_t>& sizes, int axis);
/// Copies of consecutive pieces with these `sizes`, which add up to x.size(axis).
std::vector<Tensor> split(const Tensor& x, const std::vector<std::int64_t>& sizes, int axis);
/// A copy of [begin, begin + length) of `axis`.
Tensor narrow(const Tensor& x, int axis, std::int64_t begin, std::int64_t length);
/// Writes `part` to [begin, begin + part.size(axis)) of `axis`.
void write_narrow(Tensor& out, int axis, std::int64_t begin, const Tensor& part);
/// x with `before` zeros before it and `after` zeros after it along `axis`.
Tensor pad(const Tensor& x, int axis, std::int64_t before, std::int64_t after);

/// out's dimension i is x's dimension axes[i].
Tensor permute(const Tensor& x, const std::vector<int>& axes);
/// The axes of a permutation that exchanges two dimensions.
std::vector<int> exchanged_axes(const Shape& shape, int a, int b);
/// x with two dimensions exchanged.
Tensor transpose(const Tensor& x, int a = -2, int b = -1);

// ---- by index -------------------------------------------------------------------------------

/// Rows index (n) of `axis`; this dimension becomes n.
Tensor index_select(const Tensor& x, int axis, const Tensor& index);
/// Adds source's rows to the rows index (n) of `axis`, in order.
void index_add_(Tensor& out, int axis, const Tensor& index, const Tensor& source);

/// out[.., j, ..] = x[.., index[.., j, ..], ..] at `axis`; the result has index's shape. Along the
/// other axes index may be shorter than x.
Tensor gather(const Tensor& x, int axis, const Tensor& index);
/// out[.., index[.., j, ..], ..] += source[.., j, ..] at `axis`, j ascending; source has index's
/// shape, which along other axes may be shorter than out.
void scatter_add_(Tensor& out, int axis, const Tensor& index, const Tensor& source);
/// The same, on a copy of x.
Tensor scatter_add(const Tensor& x, int axis, const Tensor& index, const Tensor& source);

// ---- positions --------------------------------------------------------------------------------

/// u8 (rows, columns): 1 where column <= row + diagonal. A square one is a causal mask.
Tensor lower_triangle(std::int64_t rows, std::int64_t columns, std::int64_t diagonal = 0,
                      Device device = default_device());
/// ids, i32 or i64 -> (.., classes) i64: 1 at the id, else 0. An id outside [0, classes) has only
/// 0.
Tensor one_hot(const Tensor& ids, std::int64_t classes);
/// i64, of x's shape: which element of `axis` comes first, second, … Equal elements keep their
/// order; NaN is the largest, as in PyTorch. The host sorts: no training or evaluation calls this.
Tensor argsort(const Tensor& x, int axis = -1, bool descending = false);

}  // namespace ringlet
