// Cross-entropy, of given logits and of logits that are products of rows, with gradients.
#include "ringlet/autograd/functions.h"

#include <algorithm>

#include "ringlet/autograd/node.h"
#include "ringlet/core/ops/checks.h"
#include "ringlet/core/ops/cross_entropy.h"

namespace ringlet::autograd {

Variable cross_entropy(const Variable& logits, const Tensor& labels, double divisor) {
  const CrossEntropyOutput out = ringlet::cross_entropy(logits.tensor(), labels, divisor);
  return record("cross_entropy", out.loss, {logits},
                [logits = Saved(logits), labels = Saved(labels), lse = out.lse, divisor](
                    const Tensor& grad, Gradients& grads) {
                  grads[0].set(cross_entropy_backward(grad, logits.tensor(grads),
                                                      labels.tensor(grads), lse, divisor));
                });
}

namespace {

/// visit(begin, end) for each block of `rows`, for no rows once.
template <class Visit>
void for_product_blocks(std::int64_t rows, Visit&& visit) {
  std::int64_t begin = 0;
  do {
    const std::int64_t end = std::min(rows, begin + kProductRows);
    visit(begin, end);
    begin = end;
  } while (begin < rows);
}

}  // namespace

Variable product_cross_entropy(const Variable& a, const Variable& b, const Tensor& labels,
                               double scale, double divisor) try {
  const auto logits = [scale](const Tensor& rows, const Tensor& all) {
    return ringlet::scale(matmul(rows, all, {.trans_b = true}), scale);
  };
  Tensor loss;
  std::vector<Tensor> lse;  // of each block
  for_product_blocks(a.size(0), [&](std::int64_t begin, std::int64_t end) {
    const CrossEntropyOutput out = cross_entropy(logits(a.tensor().slice(begin, end), b.tensor()),
                                                 labels.slice(begin, end), divisor);
    loss = loss.defined() ? add(loss, out.loss) : out.loss;
    lse.push_back(out.lse);
  });
  auto backward = [=, a = Saved(a), b = Saved(b), labels = Saved(labels)](const Tensor& grad,
                                                                          Gradients& grads) {
    const Tensor& rows = a.tensor(grads);
    const Tensor& all = b.tensor(grads);
    Tensor grad_rows = empty_like(rows);
    // A sum over the blocks: rounded once, after the last.
    Tensor grad_all = empty(all.shape(), parameter_dtype(all.dtype()), all.device());
    std::size_t block = 0;
    for_product_blocks(rows.size(0), [&](std::int64_t begin, std::int64_t end) {
      const Tensor part = rows.slice(begin, end);
      const Tensor grad_logits = ringlet::scale(
          cross_entropy_backward(grad, logits(part, all), labels.tensor(grads).slice(begin, end),
                                 lse[block], divisor),
          scale);
      Tensor grad_part = grad_rows.slice(begin, end);
      matmul_into(grad_part, grad_logits, all);
      matmul_into(grad_all, grad_logits, part, {.trans_a = true}, block++ == 0 ? 0 : 1);
    });
    if (grads[0].needed()) grads[0].set(grad_rows);
    if (grads[1].needed()) grads[1].set(grad_all.to(all.dtype()));
  };
  return record("product_cross_entropy", loss, {a, b}, std::move(backward));
} catch (const Error& error) {
  fail_as("product_cross_entropy", error);
}

}  // namespace ringlet::autograd
