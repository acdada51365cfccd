// Moving elements, as in core/ops/index.h, with their gradients. The gradient of a copy is moved
// back; those of several copies are summed.
#pragma once

#include "ringlet/autograd/node.h"
#include "ringlet/core/ops/elementwise.h"
#include "ringlet/core/ops/index.h"

namespace ringlet::autograd {

// ---- joining and cutting --------------------------------------------------------------------

inline std::vector<Tensor> tensors_of(const std::vector<Variable>& variables) {
  std::vector<Tensor> out;
  for (const Variable& variable : variables) out.push_back(variable.tensor());
  return out;
}

/// Joins the inputs along `axis`.
inline Variable concat(const std::vector<Variable>& inputs, int axis) {
  std::vector<std::int64_t> sizes;
  for (const Variable& x : inputs) sizes.push_back(x.size(axis));
  return record("concat", ringlet::concat(tensors_of(inputs), axis), inputs,
                [axis, sizes](const Tensor& grad, Gradients& grads) {
                  std::int64_t begin = 0;
                  for (std::size_t i = 0; i < sizes.size(); begin += sizes[i++])
                    if (grads[i].needed()) grads[i].set(narrow(grad, axis, begin, sizes[i]));
                });
}

/// Joins the inputs along a new dimension before `axis`.
inline Variable stack(const std::vector<Variable>& inputs, int axis) {
  return record("stack", ringlet::stack(tensors_of(inputs), axis), inputs,
                [axis](const Tensor& grad, Gradients& grads) {
                  const Shape shape = grad.shape().without(axis);
                  for (std::size_t i = 0; i < grads.size(); ++i)
                    if (grads[i].needed())
                      grads[i].set(narrow(grad, axis, static_cast<std::int64_t>(i), 1).view(shape));
                });
}

/// A copy of [begin, begin + length) of `axis`.
inline Variable narrow(const Variable& x, int axis, std::int64_t begin, std::int64_t length) {
  // Pieces of one tensor share its sink: only the first piece writes all of it.
  auto backward = [shape = x.shape(), axis, begin](const Tensor& grad, Gradients& grads) {
    Accumulator sink = grads[0].sink(shape, grad.dtype(), grad.device());
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

/// Consecutive pieces with these `sizes`, which add up to x.size(axis).
inline std::vector<Variable> split(const Variable& x, const std::vector<std::int64_t>& sizes,
                                   int axis) {
  check_split(x.shape(), sizes, axis);
  std::vector<Variable> out;
  std::int64_t begin = 0;
  for (std::int64_t size : sizes) {
    out.push_back(narrow(x, axis, begin, size));
    begin += size;
  }
  return out;
}

/// x with `before` zeros before it and `after` zeros after it along `axis`.
inline Variable pad(const Variable& x, int axis, std::int64_t before, std::int64_t after) {
  auto backward = [axis, before, length = x.size(axis)](const Tensor& grad, Gradients& grads) {
    grads[0].set(ringlet::narrow(grad, axis, before, length));
  };
  return record("pad", ringlet::pad(x.tensor(), axis, before, after), {x}, std::move(backward));
}

/// The result's dimension i is x's dimension axes[i].
inline Variable permute(const Variable& x, const std::vector<int>& axes) {
  const Tensor y = ringlet::permute(x.tensor(), axes);
  std::vector<int> inverse(axes.size());
  for (std::size_t i = 0; i < axes.size(); ++i)
    inverse[static_cast<std::size_t>(x.shape().index(axes[i]))] = static_cast<int>(i);
  return record("permute", y, {x}, [inverse](const Tensor& grad, Gradients& grads) {
    grads[0].set(ringlet::permute(grad, inverse));
  });
}

/// x with two dimensions exchanged.
inline Variable transpose(const Variable& x, int a = -2, int b = -1) {
  return permute(x, exchanged_axes(x.shape(), a, b));
}

// ---- by index -------------------------------------------------------------------------------

/// The backward of rows or elements that an index selects: `add` adds their gradients.
inline auto add_selected(void (*add)(Tensor&, int, const Tensor&, const Tensor&), const Variable& x,
                         int axis, const Tensor& index) {
  return [=, shape = x.shape(), index = Saved(index)](const Tensor& grad, Gradients& grads) {
    Accumulator sink = grads[0].sink(shape, grad.dtype(), grad.device());
    if (sink.beta == 0) sink.out.zero_();
    add(sink.out, axis, index.tensor(grads), grad.to(sink.out.dtype()));
  };
}

/// Rows index (n) of `axis`, i32 or i64.
inline Variable index_select(const Variable& x, int axis, const Tensor& index) {
  return record("index_select", ringlet::index_select(x.tensor(), axis, index), {x},
                add_selected(index_add_, x, axis, index));
}

/// out[.., j, ..] = x[.., index[.., j, ..], ..] at `axis`.
inline Variable gather(const Variable& x, int axis, const Tensor& index) {
  return record("gather", ringlet::gather(x.tensor(), axis, index), {x},
                add_selected(scatter_add_, x, axis, index));
}

/// x with source[.., j, ..] added at [.., index[.., j, ..], ..] of `axis`, j ascending.
inline Variable scatter_add(const Variable& x, int axis, const Tensor& index,
                            const Variable& source) {
  return record("scatter_add", ringlet::scatter_add(x.tensor(), axis, index, source.tensor()),
                {x, source}, [axis, index = Saved(index)](const Tensor& grad, Gradients& grads) {
                  if (grads[0].needed()) grads[0].set(grad);
                  if (grads[1].needed())
                    grads[1].set(ringlet::gather(grad, axis, index.tensor(grads)));
                });
}

}  // namespace ringlet::autograd
