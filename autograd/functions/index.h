// Moving elements, as in core/ops/index.h, with their gradients. The gradient of a copy is moved
// back; those of several copies are summed.
#pragma once

#include "ringlet/autograd/node.h"
#include "ringlet/core/ops/elementwise.h"
#include "ringlet/core/ops/index.h"

namespace ringlet::autograd {

/// The sink of a gradient to which parts are added, set to zero if it holds no gradient yet.
inline Tensor zeroed_sink(Gradient& grad, const Shape& shape, DType dtype, Device device) {
  Accumulator sink = grad.sink(shape, dtype, device);
  if (sink.beta == 0) sink.out.zero_();
  return sink.out;
}

// ---- joining and cutting --------------------------------------------------------------------

struct ConcatNode final : Node {
  int axis;
  std::vector<std::int64_t> sizes;
  const char* name() const override { return "concat"; }

  void backward(const Tensor& grad, Gradients& grads) override {
    std::int64_t begin = 0;
    for (std::size_t i = 0; i < sizes.size(); begin += sizes[i++])
      if (grads[i].needed()) grads[i].set(narrow(grad, axis, begin, sizes[i]));
  }
};

inline std::vector<Tensor> tensors_of(const std::vector<Variable>& variables) {
  std::vector<Tensor> out;
  for (const Variable& variable : variables) out.push_back(variable.tensor());
  return out;
}

/// Joins the inputs along `axis`.
inline Variable concat(const std::vector<Variable>& inputs, int axis) {
  return record<ConcatNode>(ringlet::concat(tensors_of(inputs), axis), inputs,
                            [&](ConcatNode& node) {
                              node.axis = axis;
                              for (const Variable& x : inputs) node.sizes.push_back(x.size(axis));
                            });
}

struct StackNode final : Node {
  int axis;
  std::size_t count;
  const char* name() const override { return "stack"; }

  void backward(const Tensor& grad, Gradients& grads) override {
    const Shape shape = grad.shape().without(axis);
    for (std::size_t i = 0; i < count; ++i)
      if (grads[i].needed())
        grads[i].set(narrow(grad, axis, static_cast<std::int64_t>(i), 1).view(shape));
  }
};

/// Joins the inputs along a new dimension before `axis`.
inline Variable stack(const std::vector<Variable>& inputs, int axis) {
  return record<StackNode>(ringlet::stack(tensors_of(inputs), axis), inputs, [&](StackNode& node) {
    node.axis = axis;
    node.count = inputs.size();
  });
}

struct NarrowNode final : Node {
  Shape shape;
  int axis;
  std::int64_t begin;
  const char* name() const override { return "narrow"; }

  // Pieces of one tensor share its sink: only the first piece writes all of it.
  void backward(const Tensor& grad, Gradients& grads) override {
    Accumulator sink = grads[0].sink(shape, grad.dtype(), grad.device());
    Tensor part = grad.to(sink.out.dtype());
    if (sink.beta == 0) {
      sink.out.zero_();
    } else {
      part = add(narrow(sink.out, axis, begin, grad.size(axis)), part);
    }
    write_narrow(sink.out, axis, begin, part);
  }
};

/// A copy of [begin, begin + length) of `axis`.
inline Variable narrow(const Variable& x, int axis, std::int64_t begin, std::int64_t length) {
  return record<NarrowNode>(ringlet::narrow(x.tensor(), axis, begin, length), {x},
                            [&](NarrowNode& node) {
                              node.shape = x.shape();
                              node.axis = axis;
                              node.begin = begin;
                            });
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

struct PadNode final : Node {
  int axis;
  std::int64_t before;
  std::int64_t length;
  const char* name() const override { return "pad"; }
  void backward(const Tensor& grad, Gradients& grads) override {
    grads[0].set(narrow(grad, axis, before, length));
  }
};

/// x with `before` zeros before it and `after` zeros after it along `axis`.
inline Variable pad(const Variable& x, int axis, std::int64_t before, std::int64_t after) {
  return record<PadNode>(ringlet::pad(x.tensor(), axis, before, after), {x}, [&](PadNode& node) {
    node.axis = axis;
    node.before = before;
    node.length = x.size(axis);
  });
}

struct PermuteNode final : Node {
  std::vector<int> inverse;
  const char* name() const override { return "permute"; }
  void backward(const Tensor& grad, Gradients& grads) override {
    grads[0].set(permute(grad, inverse));
  }
};

/// The result's dimension i is x's dimension axes[i].
inline Variable permute(const Variable& x, const std::vector<int>& axes) {
  return record<PermuteNode>(ringlet::permute(x.tensor(), axes), {x}, [&](PermuteNode& node) {
    node.inverse.resize(axes.size());
    for (std::size_t i = 0; i < axes.size(); ++i)
      node.inverse[static_cast<std::size_t>(x.shape().index(axes[i]))] = static_cast<int>(i);
  });
}

/// x with two dimensions exchanged.
inline Variable transpose(const Variable& x, int a = -2, int b = -1) {
  return permute(x, exchanged_axes(x.shape(), a, b));
}

// ---- by index -------------------------------------------------------------------------------

struct IndexSelectNode final : Node {
  Shape shape;
  int axis;
  Saved index;  // (n)
  const char* name() const override { return "index_select"; }

  void backward(const Tensor& grad, Gradients& grads) override {
    Tensor out = zeroed_sink(grads[0], shape, grad.dtype(), grad.device());
    index_add_(out, axis, index.tensor(*this), grad.to(out.dtype()));
  }
};

/// Rows index (n) of `axis`, i32 or i64.
inline Variable index_select(const Variable& x, int axis, const Tensor& index) {
  return record<IndexSelectNode>(ringlet::index_select(x.tensor(), axis, index), {x},
                                 [&](IndexSelectNode& node) {
                                   node.shape = x.shape();
                                   node.axis = axis;
                                   node.index = index;
                                 });
}

struct GatherNode final : Node {
  Shape shape;
  int axis;
  Saved index;  // the result's shape
  const char* name() const override { return "gather"; }

  void backward(const Tensor& grad, Gradients& grads) override {
    Tensor out = zeroed_sink(grads[0], shape, grad.dtype(), grad.device());
    scatter_add_(out, axis, index.tensor(*this), grad.to(out.dtype()));
  }
};

/// out[.., j, ..] = x[.., index[.., j, ..], ..] at `axis`.
inline Variable gather(const Variable& x, int axis, const Tensor& index) {
  return record<GatherNode>(ringlet::gather(x.tensor(), axis, index), {x}, [&](GatherNode& node) {
    node.shape = x.shape();
    node.axis = axis;
    node.index = index;
  });
}

struct ScatterAddNode final : Node {
  int axis;
  Saved index;  // source's shape
  const char* name() const override { return "scatter_add"; }

  void backward(const Tensor& grad, Gradients& grads) override {
    if (grads[0].needed()) grads[0].set(grad);
    if (grads[1].needed()) grads[1].set(gather(grad, axis, index.tensor(*this)));
  }
};

/// x with source[.., j, ..] added at [.., index[.., j, ..], ..] of `axis`, j ascending.
inline Variable scatter_add(const Variable& x, int axis, const Tensor& index,
                            const Variable& source) {
  return record<ScatterAddNode>(ringlet::scatter_add(x.tensor(), axis, index, source.tensor()),
                                {x, source}, [&](ScatterAddNode& node) {
                                  node.axis = axis;
                                  node.index = index;
                                });
}

struct ScatterNode final : Node {
  int axis;
  Saved index;  // source's shape
  const char* name() const override { return "scatter"; }

  void backward(const Tensor& grad, Gradients& grads) override {
    const Tensor places = index.tensor(*this);
    const Tensor none = zeros(places.shape(), grad.dtype(), grad.device());
    if (grads[0].needed()) grads[0].set(scatter(grad, axis, places, none));
    if (!grads[1].needed()) return;
    // Elements of the source that another one overwrote reached no output.
    const Tensor number =
        arange(0, static_cast<double>(places.numel()), 1, DType::i64, grad.device())
            .view(places.shape());
    const Tensor last =
        scatter(zeros(grad.shape(), DType::i64, grad.device()), axis, places, number);
    grads[1].set(where(eq(gather(last, axis, places), number), gather(grad, axis, places), none));
  }
};

/// x with source[.., j, ..] instead of its elements at [.., index[.., j, ..], ..] of `axis`; of
/// several values for one element the last stays, and only that has a gradient.
inline Variable scatter(const Variable& x, int axis, const Tensor& index, const Variable& source) {
  return record<ScatterNode>(ringlet::scatter(x.tensor(), axis, index, source.tensor()),
                             {x, source}, [&](ScatterNode& node) {
                               node.axis = axis;
                               node.index = index;
                             });
}

}  // namespace ringlet::autograd
