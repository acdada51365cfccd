#include "ringlet/core/ops/index.h"

#include <algorithm>
#include <numeric>

namespace ringlet {

constinit Kernel<CopyBlocksArgs> copy_blocks_kernel("copy_blocks");
constinit Kernel<PermuteArgs> permute_kernel("permute");
constinit Kernel<GatherArgs> gather_kernel("gather");
constinit Kernel<ScatterAddArgs> scatter_add_kernel("scatter_add");
constinit Kernel<ScatterArgs> scatter_kernel("scatter");

namespace {

/// A shape seen as (outer, n, inner) around one axis.
struct Split {
  std::int64_t outer = 1;
  std::int64_t n = 1;
  std::int64_t inner = 1;

  Split(const Shape& shape, int axis) {
    for (int i = 0; i < shape.dim(); ++i) (i < axis ? outer : i == axis ? n : inner) *= shape[i];
  }
};

std::int64_t bytes_of(const Tensor& x) { return static_cast<std::int64_t>(itemsize(x.dtype())); }

void check_range(const char* op, const Tensor& x, int axis, std::int64_t begin,
                 std::int64_t length) {
  RINGLET_CHECK(begin >= 0 && length >= 0 && begin <= x.size(axis) - length, "[", op, "] [", begin,
                ", ", begin + length, ") of axis ", axis, " of shape ", x.shape());
}

void check_index(const char* op, const Tensor& x, const Tensor& index) {
  check_same_device(op, x, index);
  RINGLET_CHECK(index.dtype() == DType::i32 || index.dtype() == DType::i64, "[", op,
                "] an index is i32 or i64, not ", index.dtype());
}

/// Index has x's shape but for `axis`, or is shorter than it; true when it is shorter somewhere.
bool check_elements(const char* op, const Tensor& x, int axis, const Tensor& index) {
  check_index(op, x, index);
  RINGLET_CHECK_EQ(index.dim(), x.dim(), "[", op, "] dimensions of index ", index.shape(), " and ",
                   x.shape());
  bool shorter = false;
  for (int i = 0; i < x.dim(); ++i) {
    if (i == axis) continue;
    RINGLET_CHECK(index.size(i) <= x.size(i), "[", op, "] index ", index.shape(),
                  " is longer than ", x.shape(), " in axis ", i);
    shorter = shorter || index.size(i) < x.size(i);
  }
  return shorter;
}

/// x cut to index's sizes along all axes but one.
Tensor cut_to(Tensor x, int axis, const Shape& shape) {
  for (int i = 0; i < x.dim(); ++i)
    if (i != axis && shape[i] < x.size(i)) x = narrow(x, i, 0, shape[i]);
  return x;
}

/// Writes x back over the corner of `out` that it was cut from.
void write_corner(Tensor& out, const Tensor& corner, int axis) {
  if (axis == out.dim()) {
    out.copy_(corner);
    return;
  }
  if (corner.size(axis) == out.size(axis)) return write_corner(out, corner, axis + 1);
  Tensor part = narrow(out, axis, 0, corner.size(axis));
  write_corner(part, corner, axis + 1);
  write_narrow(out, axis, 0, part);
}

/// `source`, or a copy of it where it may lie in `out`: kernels write while they read.
Tensor apart_from(const Tensor& out, const Tensor& source) {
  return source.storage() == out.storage() ? source.clone() : source;
}

void run_scatter_add(Tensor& out, const Tensor& source, const Tensor& index, const Split& sizes,
                     std::int64_t out_n, bool whole_rows) {
  if (source.numel() == 0) return;
  const Tensor from = apart_from(out, source);
  scatter_add_kernel({out.mutable_bytes(), from.bytes(), index.bytes(), sizes.outer, out_n, sizes.n,
                      sizes.inner, whole_rows, out.dtype(), index.dtype()},
                     out.device());
}

}  // namespace

void index_out_of_range(const char* op, std::int64_t index, std::int64_t size) {
  fail("[", op, "] index ", index, " is out of range for size ", size);
}

// ---- joining and cutting --------------------------------------------------------------------

Tensor concat(const std::vector<Tensor>& tensors, int axis) {
  RINGLET_CHECK(!tensors.empty(), "[concat] needs at least one tensor");
  const Tensor& first = tensors[0];
  axis = first.shape().index(axis);
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

Tensor stack(const std::vector<Tensor>& tensors, int axis) {
  RINGLET_CHECK(!tensors.empty(), "[stack] needs at least one tensor");
  const Shape& shape = tensors[0].shape();
  const int at = shape.inserted(0, 1).index(axis);
  std::vector<Tensor> views;
  for (const Tensor& x : tensors) {
    check_shape("stack", "a tensor", x, shape);
    views.push_back(x.view(shape.inserted(at, 1)));
  }
  return concat(views, at);
}

void check_split(const Shape& shape, const std::vector<std::int64_t>& sizes, int axis) {
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
  axis = x.shape().index(axis);
  check_range("narrow", x, axis, begin, length);
  Tensor out = empty(x.shape().with(axis, length), x.dtype(), x.device());
  const Split sizes(x.shape(), axis);
  const std::int64_t row = sizes.inner * bytes_of(x);
  if (out.numel() > 0)
    copy_blocks_kernel({out.mutable_bytes(), x.bytes() + begin * row, sizes.outer, length * row,
                        length * row, sizes.n * row},
                       x.device());
  return out;
}

void write_narrow(Tensor& out, int axis, std::int64_t begin, const Tensor& part) {
  axis = out.shape().index(axis);
  check_same_dtype("write_narrow", out, part);
  check_same_device("write_narrow", out, part);
  RINGLET_CHECK_EQ(part.dim(), out.dim(), "[write_narrow] dimensions");
  check_range("write_narrow", out, axis, begin, part.size(axis));
  check_shape("write_narrow", "the part", part, out.shape().with(axis, part.size(axis)));
  const Split sizes(out.shape(), axis);
  const std::int64_t row = sizes.inner * bytes_of(out), block = part.size(axis) * row;
  if (part.numel() > 0)
    copy_blocks_kernel(
        {out.mutable_bytes() + begin * row, part.bytes(), sizes.outer, block, sizes.n * row, block},
        out.device());
}

Tensor pad(const Tensor& x, int axis, std::int64_t before, std::int64_t after) {
  RINGLET_CHECK(before >= 0 && after >= 0, "[pad] by ", before, " and ", after);
  axis = x.shape().index(axis);
  Tensor out = zeros(x.shape().with(axis, before + x.size(axis) + after), x.dtype(), x.device());
  write_narrow(out, axis, before, x);
  return out;
}

Tensor permute(const Tensor& x, const std::vector<int>& axes) {
  RINGLET_CHECK_EQ(static_cast<int>(axes.size()), x.dim(), "[permute] axes of ", x.shape());
  std::int64_t strides[Shape::kMaxDim] = {};
  for (std::int64_t i = x.dim() - 1, stride = 1; i >= 0; stride *= x.size(static_cast<int>(i--)))
    strides[i] = stride;
  PermuteArgs args{nullptr, x.bytes(), x.dim(), {}, {}, bytes_of(x)};
  Shape shape = x.shape();
  unsigned seen = 0;
  for (int i = 0; i < x.dim(); ++i) {
    const int axis = x.shape().index(axes[static_cast<std::size_t>(i)]);
    RINGLET_CHECK(!(seen >> axis & 1u), "[permute] axis ", axis, " appears twice");
    seen |= 1u << axis;
    args.sizes[i] = shape[i] = x.size(axis);
    args.in_strides[i] = strides[axis];
  }
  Tensor out = empty(shape, x.dtype(), x.device());
  if (out.numel() == 0) return out;
  args.out = out.mutable_bytes();
  permute_kernel(args, x.device());
  return out;
}

std::vector<int> exchanged_axes(const Shape& shape, int a, int b) {
  std::vector<int> axes(static_cast<std::size_t>(shape.dim()));
  std::iota(axes.begin(), axes.end(), 0);
  std::swap(axes[static_cast<std::size_t>(shape.index(a))],
            axes[static_cast<std::size_t>(shape.index(b))]);
  return axes;
}

Tensor transpose(const Tensor& x, int a, int b) {
  return permute(x, exchanged_axes(x.shape(), a, b));
}

// ---- by index -------------------------------------------------------------------------------

Tensor index_select(const Tensor& x, int axis, const Tensor& index) {
  axis = x.shape().index(axis);
  check_index("index_select", x, index);
  RINGLET_CHECK_EQ(index.dim(), 1, "[index_select] dimensions of the index");
  const Split sizes(x.shape(), axis);
  Tensor out = empty(x.shape().with(axis, index.numel()), x.dtype(), x.device());
  if (out.numel() > 0)
    gather_kernel({out.mutable_bytes(), x.bytes(), index.bytes(), sizes.outer, sizes.n,
                   index.numel(), sizes.inner, true, bytes_of(x), index.dtype()},
                  x.device());
  return out;
}

void index_add_(Tensor& out, int axis, const Tensor& index, const Tensor& source) {
  axis = out.shape().index(axis);
  check_index("index_add_", out, index);
  check_same_dtype("index_add_", out, source);
  check_same_device("index_add_", out, source);
  RINGLET_CHECK_EQ(index.dim(), 1, "[index_add_] dimensions of the index");
  check_shape("index_add_", "the source", source, out.shape().with(axis, index.numel()));
  run_scatter_add(out, source, index, Split(source.shape(), axis), out.size(axis), true);
}

Tensor gather(const Tensor& x, int axis, const Tensor& index) {
  axis = x.shape().index(axis);
  if (check_elements("gather", x, axis, index))
    return gather(cut_to(x, axis, index.shape()), axis, index);
  const Split sizes(index.shape(), axis);
  Tensor out = empty(index.shape(), x.dtype(), x.device());
  if (out.numel() > 0)
    gather_kernel({out.mutable_bytes(), x.bytes(), index.bytes(), sizes.outer, x.size(axis),
                   sizes.n, sizes.inner, false, bytes_of(x), index.dtype()},
                  x.device());
  return out;
}

void scatter_add_(Tensor& out, int axis, const Tensor& index, const Tensor& source) {
  axis = out.shape().index(axis);
  check_same_dtype("scatter_add_", out, source);
  check_same_device("scatter_add_", out, source);
  check_shape("scatter_add_", "the source", source, index.shape());
  if (check_elements("scatter_add_", out, axis, index)) {
    Tensor corner = cut_to(out, axis, index.shape());
    scatter_add_(corner, axis, index, source);
    return write_corner(out, corner, 0);
  }
  run_scatter_add(out, source, index, Split(source.shape(), axis), out.size(axis), false);
}

void scatter_(Tensor& out, int axis, const Tensor& index, const Tensor& source) {
  axis = out.shape().index(axis);
  check_same_dtype("scatter_", out, source);
  check_same_device("scatter_", out, source);
  check_shape("scatter_", "the source", source, index.shape());
  if (check_elements("scatter_", out, axis, index)) {
    Tensor corner = cut_to(out, axis, index.shape());
    scatter_(corner, axis, index, source);
    return write_corner(out, corner, 0);
  }
  if (source.numel() == 0) return;
  const Split sizes(source.shape(), axis);
  const Tensor from = apart_from(out, source);
  scatter_kernel({out.mutable_bytes(), from.bytes(), index.bytes(), sizes.outer, out.size(axis),
                  sizes.n, sizes.inner, bytes_of(out), index.dtype()},
                 out.device());
}

Tensor scatter_add(const Tensor& x, int axis, const Tensor& index, const Tensor& source) {
  Tensor out = x.clone();
  scatter_add_(out, axis, index, source);
  return out;
}

Tensor scatter(const Tensor& x, int axis, const Tensor& index, const Tensor& source) {
  Tensor out = x.clone();
  scatter_(out, axis, index, source);
  return out;
}

}  // namespace ringlet
