#include "ringlet/core/ops/index.h"

#include <algorithm>
#include <numeric>

#include "ringlet/core/ops/axis_sizes.h"
#include "ringlet/core/ops/checks.h"
#include "ringlet/core/ops/elementwise.h"

namespace ringlet {

constinit OpKernel<GatherArgs> gather_kernel("gather");
constinit OpKernel<ScatterAddArgs> scatter_add_kernel("scatter_add");

namespace {

void check_index(const char* op, const Tensor& x, const Tensor& index) {
  check_same_device(op, x, index);
  RINGLET_CHECK(index.dtype() == DType::i32 || index.dtype() == DType::i64, "[", op,
                "] an index is i32 or i64, not ", index.dtype());
}

/// Checks index against x along the axes other than `axis`; true if it is shorter along one of
/// them.
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

/// x cut to index's sizes along all axes but `axis`.
Tensor cut_to(Tensor x, int axis, const Shape& shape) {
  for (int i = 0; i < x.dim(); ++i)
    if (i != axis && shape[i] < x.size(i)) x = narrow(x, i, 0, shape[i]);
  return x;
}

/// Writes `corner` back to the part of `out` that it was cut from.
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

/// `source`, or a copy of it if it may overlap `out`: kernels write while they read.
Tensor apart_from(const Tensor& out, const Tensor& source) {
  return source.storage() == out.storage() ? source.clone() : source;
}

void run_scatter_add(const char* op, Tensor& out, int axis, const Tensor& index,
                     const Tensor& source, bool whole_rows) {
  check_computes(op, out.dtype());
  if (source.numel() == 0) return;
  const Tensor from = apart_from(out, source);
  const AxisSizes sizes(source.shape(), axis);
  scatter_add_kernel({out.mutable_bytes(), from.bytes(), index.bytes(), sizes.outer, out.size(axis),
                      sizes.n, sizes.inner, whole_rows, out.dtype(), index.dtype()},
                     out.device());
}

}  // namespace

void index_out_of_range(const char* op, std::int64_t index, std::int64_t size) {
  fail("[", op, "] index ", index, " is out of range for size ", size);
}

Tensor index_select(const Tensor& x, int axis, const Tensor& index) {
  axis = axis_of("index_select", x.shape(), axis);
  check_index("index_select", x, index);
  RINGLET_CHECK_EQ(index.dim(), 1, "[index_select] dimensions of the index");
  const AxisSizes sizes(x.shape(), axis);
  Tensor out = empty(x.shape().with(axis, index.numel()), x.dtype(), x.device());
  if (out.numel() > 0)
    gather_kernel({out.mutable_bytes(), x.bytes(), index.bytes(), sizes.outer, sizes.n,
                   index.numel(), sizes.inner, true, element_bytes(x), index.dtype()},
                  x.device());
  return out;
}

void index_add_(Tensor& out, int axis, const Tensor& index, const Tensor& source) {
  axis = axis_of("index_add_", out.shape(), axis);
  check_index("index_add_", out, index);
  RINGLET_CHECK_EQ(index.dim(), 1, "[index_add_] dimensions of the index");
  check_tensor("index_add_", "the source", source, out.shape().with(axis, index.numel()),
               out.dtype(), out.device());
  run_scatter_add("index_add_", out, axis, index, source, true);
}

Tensor gather(const Tensor& x, int axis, const Tensor& index) {
  axis = axis_of("gather", x.shape(), axis);
  if (check_elements("gather", x, axis, index))
    return gather(cut_to(x, axis, index.shape()), axis, index);
  const AxisSizes sizes(index.shape(), axis);
  Tensor out = empty(index.shape(), x.dtype(), x.device());
  if (out.numel() > 0)
    gather_kernel({out.mutable_bytes(), x.bytes(), index.bytes(), sizes.outer, x.size(axis),
                   sizes.n, sizes.inner, false, element_bytes(x), index.dtype()},
                  x.device());
  return out;
}

void scatter_add_(Tensor& out, int axis, const Tensor& index, const Tensor& source) {
  axis = axis_of("scatter_add_", out.shape(), axis);
  check_tensor("scatter_add_", "the source", source, index.shape(), out.dtype(), out.device());
  const bool shorter = check_elements("scatter_add_", out, axis, index);
  Tensor to = shorter ? cut_to(out, axis, index.shape()) : out;
  run_scatter_add("scatter_add_", to, axis, index, source, false);
  if (shorter) write_corner(out, to, 0);
}

Tensor scatter_add(const Tensor& x, int axis, const Tensor& index, const Tensor& source) try {
  Tensor out = x.clone();
  scatter_add_(out, axis, index, source);
  return out;
} catch (const Error& error) {
  fail_as("scatter_add", error);
}

// ---- positions ------------------------------------------------------------------------------

Tensor lower_triangle(std::int64_t rows, std::int64_t columns, std::int64_t diagonal,
                      Device device) {
  const auto from = [&](std::int64_t first, std::int64_t count) {
    const auto start = static_cast<double>(first);
    return arange(start, start + static_cast<double>(count), 1, DType::i64, device);
  };
  return le(from(0, columns), from(diagonal, rows).view({rows, 1}));
}

Tensor one_hot(const Tensor& ids, std::int64_t classes) {
  check_index("one_hot", ids, ids);
  const Tensor all = arange(0, static_cast<double>(classes), 1, ids.dtype(), ids.device());
  return eq(ids.view(ids.shape().inserted(ids.dim(), 1)), all).to(DType::i64);
}

namespace {

template <class T>
Tensor sorted_indices(const Tensor& x, int axis, bool descending) {
  const AxisSizes sizes(x.shape(), axis);
  const std::vector<T> values = x.to_vector<T>();
  Tensor out = empty(x.shape(), DType::i64, Device{});
  auto* const indices = out.mutable_data<std::int64_t>();
  std::vector<std::int64_t> order(static_cast<std::size_t>(sizes.n));
  for (std::int64_t line = 0; line < sizes.outer * sizes.inner; ++line) {
    const std::int64_t first = line / sizes.inner * sizes.n * sizes.inner + line % sizes.inner;
    const auto value = [&](std::int64_t i) {
      return values[static_cast<std::size_t>(first + i * sizes.inner)];
    };
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](std::int64_t i, std::int64_t j) {
      const T a = value(descending ? j : i), b = value(descending ? i : j);
      return a < b || (b != b && a == a);
    });
    for (std::size_t i = 0; i < order.size(); ++i)
      indices[first + static_cast<std::int64_t>(i) * sizes.inner] = order[i];
  }
  return out.to(x.device());
}

}  // namespace

Tensor argsort(const Tensor& x, int axis, bool descending) {
  axis = axis_of("argsort", x.shape(), axis);
  return is_floating(x.dtype()) ? sorted_indices<double>(x, axis, descending)
                                : sorted_indices<std::int64_t>(x, axis, descending);
}

}  // namespace ringlet
