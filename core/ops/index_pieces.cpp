// Ops on pieces given by sizes: joining, cutting and permuting axes.
#include <numeric>
#include <utility>

#include "ringlet/core/ops/axis_sizes.h"
#include "ringlet/core/ops/checks.h"
#include "ringlet/core/ops/index.h"

namespace ringlet {

constinit OpKernel<CopyBlocksArgs> copy_blocks_kernel("copy_blocks");
constinit OpKernel<PermuteArgs> permute_kernel("permute");

namespace {

void check_range(const char* op, const Tensor& x, int axis, std::int64_t begin,
                 std::int64_t length) {
  RINGLET_CHECK(begin >= 0 && length >= 0 && begin <= x.size(axis) - length, "[", op, "] [", begin,
                ", ", begin + length, ") of axis ", axis, " of shape ", x.shape());
}

/// Merges dimensions that are adjacent in both the input and the output, and drops those of size 1.
/// If any dimension is left, one has in_stride 1.
PermuteArgs merged(const PermuteArgs& args) {
  PermuteArgs out = args;
  out.dim = 0;
  for (int i = 0; i < args.dim; ++i) {
    if (args.sizes[i] == 1) continue;
    const int last = out.dim - 1;
    if (last >= 0 && out.in_strides[last] == args.in_strides[i] * args.sizes[i]) {
      out.sizes[last] *= args.sizes[i];
      out.in_strides[last] = args.in_strides[i];
    } else {
      out.sizes[out.dim] = args.sizes[i];
      out.in_strides[out.dim++] = args.in_strides[i];
    }
  }
  return out;
}

}  // namespace

Tensor concat(const std::vector<Tensor>& tensors, int axis) {
  RINGLET_CHECK(!tensors.empty(), "[concat] needs at least one tensor");
  const Tensor& first = tensors[0];
  axis = axis_of("concat", first.shape(), axis);
  std::int64_t total = 0;
  for (const Tensor& x : tensors) {
    check_same_dtype("concat", x, first);
    check_same_device("concat", x, first);
    RINGLET_CHECK(x.dim() == first.dim() && x.shape().with(axis, 0) == first.shape().with(axis, 0),
                  "[concat] ", x.shape(), " to ", first.shape(), " along axis ", axis);
    total += x.size(axis);
  }
  Tensor out = empty(first.shape().with(axis, total), first.dtype(), first.device());
  std::int64_t begin = 0;
  for (const Tensor& x : tensors) {
    write_narrow(out, axis, begin, x);
    begin += x.size(axis);
  }
  return out;
}

Tensor adjacent(std::span<const Tensor> tensors) {
  if (tensors.empty() || !tensors[0].defined() || tensors[0].dim() == 0) return {};
  const Tensor& first = tensors[0];
  const std::int64_t row = first.shape().without(0).numel();
  std::int64_t rows = 0;
  for (const Tensor& tensor : tensors) {
    const std::size_t expected =
        first.storage_offset() + static_cast<std::size_t>(rows * row) * itemsize(first.dtype());
    if (tensor.storage() != first.storage() || tensor.storage_offset() != expected ||
        tensor.dtype() != first.dtype() || tensor.dim() != first.dim() ||
        tensor.shape().without(0) != first.shape().without(0))
      return {};
    rows += tensor.size(0);
  }
  return Tensor(first.storage(), first.storage_offset(), first.shape().with(0, rows),
                first.dtype());
}

Tensor stack(const std::vector<Tensor>& tensors, int axis) {
  RINGLET_CHECK(!tensors.empty(), "[stack] needs at least one tensor");
  const Shape& shape = tensors[0].shape();
  const int at = axis_of("stack", shape.inserted(0, 1), axis);
  std::vector<Tensor> views;
  for (const Tensor& x : tensors) {
    check_like("stack", "a tensor", x, tensors[0]);
    views.push_back(x.view(shape.inserted(at, 1)));
  }
  return concat(views, at);
}

void check_split(const Shape& shape, const std::vector<std::int64_t>& sizes, int axis) {
  axis = axis_of("split", shape, axis);
  for (std::int64_t size : sizes) RINGLET_CHECK(size >= 0, "[split] size ", size);
  RINGLET_CHECK_EQ(std::accumulate(sizes.begin(), sizes.end(), std::int64_t{0}), shape[axis],
                   "[split] sizes do not add up to axis ", axis, " of ", shape);
}

std::vector<Tensor> split(const Tensor& x, const std::vector<std::int64_t>& sizes, int axis) {
  check_split(x.shape(), sizes, axis);
  std::vector<Tensor> out;
  std::int64_t begin = 0;
  for (std::int64_t size : sizes) {
    out.push_back(narrow(x, axis, begin, size));
    begin += size;
  }
  return out;
}

Tensor narrow(const Tensor& x, int axis, std::int64_t begin, std::int64_t length) {
  axis = axis_of("narrow", x.shape(), axis);
  check_range("narrow", x, axis, begin, length);
  Tensor out = empty(x.shape().with(axis, length), x.dtype(), x.device());
  const AxisSizes sizes(x.shape(), axis);
  const std::int64_t row = sizes.inner * element_bytes(x);
  if (out.numel() > 0)
    copy_blocks_kernel({out.mutable_bytes(), x.bytes() + begin * row, sizes.outer, length * row,
                        length * row, sizes.n * row},
                       x.device());
  return out;
}

void write_narrow(Tensor& out, int axis, std::int64_t begin, const Tensor& part) {
  axis = axis_of("write_narrow", out.shape(), axis);
  check_same_dtype("write_narrow", out, part);
  check_same_device("write_narrow", out, part);
  RINGLET_CHECK_EQ(part.dim(), out.dim(), "[write_narrow] dimensions");
  check_range("write_narrow", out, axis, begin, part.size(axis));
  check_shape("write_narrow", "the part", part, out.shape().with(axis, part.size(axis)));
  const AxisSizes sizes(out.shape(), axis);
  const std::int64_t row = sizes.inner * element_bytes(out), block = part.size(axis) * row;
  if (part.numel() > 0)
    copy_blocks_kernel(
        {out.mutable_bytes() + begin * row, part.bytes(), sizes.outer, block, sizes.n * row, block},
        out.device());
}

Tensor pad(const Tensor& x, int axis, std::int64_t before, std::int64_t after) {
  RINGLET_CHECK(before >= 0 && after >= 0, "[pad] by ", before, " and ", after);
  axis = axis_of("pad", x.shape(), axis);
  Tensor out = zeros(x.shape().with(axis, before + x.size(axis) + after), x.dtype(), x.device());
  write_narrow(out, axis, before, x);
  return out;
}

Tensor permute(const Tensor& x, const std::vector<int>& axes) {
  RINGLET_CHECK_EQ(static_cast<int>(axes.size()), x.dim(), "[permute] axes of ", x.shape());
  std::int64_t strides[Shape::kMaxDim] = {};
  for (std::int64_t i = x.dim() - 1, stride = 1; i >= 0; stride *= x.size(static_cast<int>(i--)))
    strides[i] = stride;
  PermuteArgs args{nullptr, x.bytes(), x.dim(), {}, {}, element_bytes(x)};
  Shape shape = x.shape();
  unsigned seen = 0;
  for (int i = 0; i < x.dim(); ++i) {
    const int axis = axis_of("permute", x.shape(), axes[static_cast<std::size_t>(i)]);
    RINGLET_CHECK(!(seen >> axis & 1u), "[permute] axis ", axis, " appears twice");
    seen |= 1u << axis;
    args.sizes[i] = shape[i] = x.size(axis);
    args.in_strides[i] = strides[axis];
  }
  Tensor out = empty(shape, x.dtype(), x.device());
  if (out.numel() == 0) return out;
  args.out = out.mutable_bytes();
  permute_kernel(merged(args), x.device());
  return out;
}

std::vector<int> exchanged_axes(const Shape& shape, int a, int b) {
  std::vector<int> axes(static_cast<std::size_t>(shape.dim()));
  std::iota(axes.begin(), axes.end(), 0);
  std::swap(axes[static_cast<std::size_t>(axis_of("transpose", shape, a))],
            axes[static_cast<std::size_t>(axis_of("transpose", shape, b))]);
  return axes;
}

Tensor transpose(const Tensor& x, int a, int b) {
  return permute(x, exchanged_axes(x.shape(), a, b));
}

}  // namespace ringlet
