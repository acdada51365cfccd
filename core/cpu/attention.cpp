#include "ringlet/core/ops/attention.h"

#include "ringlet/core/cpu/attention_backward.h"
#include "ringlet/core/cpu/attention_softmax.h"
#include "ringlet/core/cpu/scratch.h"
#include "ringlet/core/cpu/small_matmul.h"
#include "ringlet/core/device/dispatch.h"
#include "ringlet/core/threads/parallel.h"

namespace ringlet::cpu::RINGLET_ISA {

namespace {

// Attention of one head of one sentence: its outputs and the log-sum-exps of its scores.
template <class T>
std::int64_t forward_memory(const Item<T>& item) {
  return (item.width + item.attended + 1) * item.ld +
         (kQueryBlock + 2 * item.length) * item.columns + distances(item) + Compute<T>::kLanes;
}

template <class T>
void forward_item(const AttentionArgs& args, const Item<T>& item, const PhiloxSchedule& schedule) {
  using S = scalar_t<T>;
  constexpr int kLanes = Compute<S>::kLanes;
  const std::int64_t ld = item.ld, columns = item.columns, width = item.width;
  const Scratch memory(static_cast<std::size_t>(forward_memory(item)) * sizeof(S));
  Pieces<S> pieces(memory.as<S>());
  S* qt = pieces.take(width * ld);
  S* p = pieces.take(item.attended * ld);
  S* sums = pieces.take(ld);
  S* out = pieces.take(kQueryBlock * columns);
  const auto k =
      head_rows(item.in(1), item.stride, item.attended, item, pieces.take(item.length * columns));
  const auto v =
      head_rows(item.in(2), item.stride, item.attended, item, pieces.take(item.length * columns));
  S* bias = item.all.relative_bias ? pieces.take(distances(item)) : nullptr;
  if (bias) relative_bias(bias, item);

  S* lse = static_cast<S*>(args.lse) + item.lse_offset(0);
  for (std::int64_t begin = 0; begin < item.length; begin += kQueryBlock) {
    const std::int64_t rows = item.queries(begin), out_stride = item.all.heads * width;
    T* to = static_cast<T*>(args.out) + item.out_offset(begin);
    transpose(qt, ld, item.in(0, begin), item.stride, rows, width, static_cast<S>(item.all.scale));
    small_matmul(p, ld, SmallMatrix<S>{k.data, k.stride, 1}, qt, ld, item.attended, padded<S>(rows),
                 width);
    for (std::int64_t i = 0; i < rows; i += kLanes) {
      vector_t<S> total;
      const vector_t<S> log_sums =
          softmax_queries(p + i, queries_at(item, schedule, bias, begin + i), total);
      store(sums + i, total);
      store_at(lse + begin, i, rows - i < kLanes ? rows - i : kLanes, log_sums);
    }
    small_matmul(out, columns, SmallMatrix<S>{p, 1, ld}, v.data, v.stride, rows, columns,
                 item.attended);
    scatter_rows(to, out_stride, out, rows, item, [&](std::int64_t row) { return 1 / sums[row]; });
  }
}

void attention(const AttentionArgs& args, Device device) {
  dispatch_floating("attention", args.shape.dtype, [&]<class T>() {
    parallel_for(device, args.shape.sentences * args.shape.heads, 4,
                 [&](std::int64_t begin, std::int64_t end) {
                   const PhiloxSchedule keys = schedule(key_of(args.shape.dropout));
                   for (std::int64_t i = begin; i < end; ++i)
                     if (const Item<T> item(args.shape, i); item.length > 0)
                       forward_item(args, item, keys);
                 });
  });
}

void attention_backward(const AttentionBackwardArgs& args, Device device) {
  dispatch_floating("attention_backward", args.shape.dtype, [&]<class T>() {
    using S = scalar_t<T>;
    const std::int64_t items = args.shape.sentences * args.shape.heads;
    const bool biased = args.grad_relative_bias != nullptr;
    const Scratch memory(biased ? static_cast<std::size_t>(items) * kRelativeBuckets * sizeof(S)
                                : 0);
    S* const shares = biased ? memory.as<S>() : nullptr;
    parallel_for(device, items, 4, [&](std::int64_t begin, std::int64_t end) {
      const PhiloxSchedule keys = schedule(key_of(args.shape.dropout));
      for (std::int64_t i = begin; i < end; ++i)
        backward_item(args, Item<T>(args.shape, i), Item<T>(args.shape, i + 1 < end ? i + 1 : i),
                      keys, shares);
    });
    if (biased) add_shares<S>(args, shares);
  });
}

}  // namespace

void register_attention() {
  attention_kernel.set(DeviceType::cpu, attention);
  attention_backward_kernel.set(DeviceType::cpu, attention_backward);
}

}  // namespace ringlet::cpu::RINGLET_ISA
