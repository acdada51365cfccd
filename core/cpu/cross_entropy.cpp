#include "ringlet/core/ops/cross_entropy.h"

#include "ringlet/core/cpu/scratch.h"
#include "ringlet/core/cpu/softmax.h"
#include "ringlet/core/device/dispatch.h"
#include "ringlet/core/ops/bad_input.h"

namespace ringlet::cpu::RINGLET_ISA {
namespace {

template <class Args>
std::int64_t label_of(const Args& args, std::int64_t row) {
  return args.label_dtype == DType::i64 ? static_cast<const std::int64_t*>(args.labels)[row]
                                        : static_cast<const std::int32_t*>(args.labels)[row];
}

template <class T, class S = scalar_t<T>>
void cross_entropy(const CrossEntropyArgs& args, Device device) {
  for (std::int64_t row = 0; row < args.rows; ++row)
    if (const std::int64_t label = label_of(args, row); label < 0 || label >= args.classes)
      fail_bad_input({BadInputKind::label, row, label, args.classes});

  const Scratch scratch(static_cast<std::size_t>(args.rows) * sizeof(double));
  double* losses = scratch.as<double>();  // (rows)
  for_each(device, args.rows, kExpGrain / (args.classes + 1) + 1, [&](std::int64_t row) {
    const T* x = static_cast<const T*>(args.logits) + row * args.classes;
    const S largest = row_max(x, args.classes);
    const S sum = row_exp_sum(x, args.classes, largest), log_sum = scalar_log(sum);
    S* lse = static_cast<S*>(args.lse) + 2 * row;
    lse[0] = largest, lse[1] = sum;
    // Large logits cancel before the small logarithm is added.
    losses[row] = (largest - static_cast<S>(x[label_of(args, row)])) + log_sum;
  });
  double total = 0;
  for (std::int64_t row = 0; row < args.rows; ++row) total += losses[row];
  *static_cast<S*>(args.loss) = static_cast<S>(total / args.divisor);
}

template <class T, class S = scalar_t<T>>
void cross_entropy_backward(const CrossEntropyBackwardArgs& args, Device device) {
  const S factor = static_cast<S>(*static_cast<const S*>(args.grad) / args.divisor);
  for_each(device, args.rows, kExpGrain / args.classes + 1, [&](std::int64_t row) {
    const T* x = static_cast<const T*>(args.logits) + row * args.classes;
    T* out = static_cast<T*>(args.grad_logits) + row * args.classes;
    const S* lse = static_cast<const S*>(args.lse) + 2 * row;
    const S largest = lse[0], share = factor / lse[1];
    const std::int64_t label = label_of(args, row);
    for_vectors<T>(args.classes, [&](std::int64_t i, std::int64_t count) {
      auto gradient = exp(load_at(x, i, count) - largest) * share;
      if (label >= i && label < i + count) gradient[label - i] -= factor;
      store_at(out, i, count, gradient);
    });
  });
}

}  // namespace

void register_cross_entropy() {
  RINGLET_SET_FLOATING(cpu, cross_entropy);
  RINGLET_SET_FLOATING(cpu, cross_entropy_backward);
}

}  // namespace ringlet::cpu::RINGLET_ISA
