// Functions that keep or move elements. The gradient of a copy is moved back; those of several
// copies are summed.
#include "ringlet/autograd/functions.h"

#include "ringlet/autograd/node.h"
#include "ringlet/core/ops/checks.h"
#include "ringlet/core/ops/index.h"

namespace ringlet::autograd {

Variable view(const Variable& x, const Shape& shape) {
  return record("view", x.tensor().view(shape), {x},
                [shape = x.shape()](const Tensor& grad, Gradients& grads) {
                  grads[0].set(grad.view(shape));
                });
}

Variable slice(const Variable& x, std::int64_t begin, std::int64_t end) {
  return record("slice", x.tensor().slice(begin, end), {x},
                [shape = x.shape(), begin](const Tensor& grad, Gradients& grads) {
                  Tensor whole = zeros(shape, grad.dtype(), grad.device());
                  whole.slice(begin, begin + grad.size(0)).copy_(grad);
                  grads[0].set(whole);
                });
}

Variable cast(const Variable& x, DType dtype) {
  if (x.dtype() == dtype) return x;
  return record(
      "cast", x.tensor().to(dtype), {x},
      [dtype = x.dtype()](const Tensor& grad, Gradients& grads) { grads[0].set(grad.to(dtype)); });
}

Variable to(const Variable& x, Device device) {
  if (!x || x.device() == device) return x;
  return record(
      "to", x.tensor().to(device), {x},
      [from = x.device()](const Tensor& grad, Gradients& grads) { grads[0].set(grad.to(from)); });
}

// ---- joining and cutting --------------------------------------------------------------------

namespace {
std::vector<Tensor> tensors_of(const std::vector<Variable>& variables) {
  std::vector<Tensor> out;
  for (const Variable& variable : variables) out.push_back(variable.tensor());
  return out;
}
}  // namespace

Variable concat(const std::vector<Variable>& inputs, int axis) {
  const Tensor y = ringlet::concat(tensors_of(inputs), axis);
  std::vector<std::int64_t> sizes;
  for (const Variable& x : inputs) sizes.push_back(x.size(axis));
  return record("concat", y, inputs, [axis, sizes](const Tensor& grad, Gradients& grads) {
    std::int64_t begin = 0;
    for (std::size_t i = 0; i < sizes.size(); begin += sizes[i++])
      if (grads[i].needed()) grads[i].set(narrow(grad, axis, begin, sizes[i]));
  });
}

Variable stack(const std::vector<Variable>& inputs, int axis) {
  return record("stack", ringlet::stack(tensors_of(inputs), axis), inputs,
                [axis](const Tensor& grad, Gradients& grads) {
                  const Shape shape = grad.shape().without(axis);
                  for (std::size_t i = 0; i < grads.size(); ++i)
                    if (grads[i].needed())
                      grads[i].set(narrow(grad, axis, static_cast<std::int64_t>(i), 1).view(shape));
                });
}

Variable narrow(const Variable& x, int axis, std::int64_t begin, std::int64_t length) {
  // Pieces of one tensor share its sink: only the first piece writes all of it.
  auto backward = [shape = x.shape(), axis, begin](const Tensor& grad, Gradients& grads) {
    GradientSink sink = grads[0].sink(shape, grad.dtype(), grad.device());
    Tensor part = grad.to(sink.out.dtype());
    if (sink.beta == 0) {
      sink.out.zero_();
    } else {
      part = add(ringlet::narrow(sink.out, axis, begin, grad.size(axis)), part);
    }
    write_narrow(sink.out, axis, begin, part);
  };
  return record("narrow", ringlet::narrow(x.tensor(), axis, begin, length), {x},
                std::move(backward));
}

std::vector<Variable> split(const Variable& x, const std::vector<std::int64_t>& sizes, int axis) {
  check_split(x.shape(), sizes, axis);
  std::vector<Variable> out;
  std::int64_t begin = 0;
  for (std::int64_t size : sizes) {
    out.push_back(narrow(x, axis, begin, size));
    begin += size;
  }
  return out;
}

Variable pad(const Variable& x, int axis, std::int64_t before, std::int64_t after) {
  const Tensor y = ringlet::pad(x.tensor(), axis, before, after);
  auto backward = [axis, before, length = x.size(axis)](const Tensor& grad, Gradients& grads) {
    grads[0].set(ringlet::narrow(grad, axis, before, length));
  };
  return record("pad", y, {x}, std::move(backward));
}

Variable permute(const Variable& x, const std::vector<int>& axes) {
  const Tensor y = ringlet::permute(x.tensor(), axes);
  std::vector<int> inverse(axes.size());
  for (std::size_t i = 0; i < axes.size(); ++i)
    inverse[static_cast<std::size_t>(x.shape().index(axes[i]))] = static_cast<int>(i);
  return record("permute", y, {x}, [inverse](const Tensor& grad, Gradients& grads) {
    grads[0].set(ringlet::permute(grad, inverse));
  });
}

Variable transpose(const Variable& x, int a, int b) {
  return permute(x, exchanged_axes(x.shape(), a, b));
}

// ---- by index -------------------------------------------------------------------------------

namespace {
/// The backward of rows or elements that an index selects: `add` adds their gradients.
auto add_selected(void (*add)(Tensor&, int, const Tensor&, const Tensor&), const Variable& x,
                  int axis, const Tensor& index) {
  return [=, shape = x.shape(), index = Saved(index)](const Tensor& grad, Gradients& grads) {
    GradientSink sink = grads[0].sink(shape, grad.dtype(), grad.device());
    if (sink.beta == 0) sink.out.zero_();
    add(sink.out, axis, index.tensor(grads), grad.to(sink.out.dtype()));
  };
}
}  // namespace

Variable index_select(const Variable& x, int axis, const Tensor& index) {
  return record("index_select", ringlet::index_select(x.tensor(), axis, index), {x},
                add_selected(index_add_, x, axis, index));
}

Variable gather(const Variable& x, int axis, const Tensor& index) {
  return record("gather", ringlet::gather(x.tensor(), axis, index), {x},
                add_selected(scatter_add_, x, axis, index));
}

Sorted sort(const Variable& x, int axis, bool descending) try {
  const Tensor indices = argsort(x.tensor(), axis, descending);
  return {gather(x, axis, indices), indices};
} catch (const Error& error) {
  fail_as("sort", error);
}

namespace {
/// lower_triangle() of x's matrices.
Tensor triangle(const char* op, const Variable& x, std::int64_t diagonal) {
  RINGLET_CHECK(x.dim() >= 2, "[", op, "] needs matrices, got ", x.shape());
  return lower_triangle(x.size(-2), x.size(-1), diagonal, x.device());
}
}  // namespace

Variable tril(const Variable& x, std::int64_t diagonal) {
  return where(triangle("tril", x, diagonal), x, scalar_like(0, x.tensor()));
}
Variable triu(const Variable& x, std::int64_t diagonal) {
  return masked_fill(x, triangle("triu", x, diagonal - 1), 0);
}

Variable scatter_add(const Variable& x, int axis, const Tensor& index, const Variable& source) {
  return record("scatter_add", ringlet::scatter_add(x.tensor(), axis, index, source.tensor()),
                {x, source}, [axis, index = Saved(index)](const Tensor& grad, Gradients& grads) {
                  if (grads[0].needed()) grads[0].set(grad);
                  if (grads[1].needed())
                    grads[1].set(ringlet::gather(grad, axis, index.tensor(grads)));
                });
}

}  // namespace ringlet::autograd
