#include "ringlet/core/ops/attention.h"

#include "ringlet/core/cpu/attention_backward.h"
#include "ringlet/core/cpu/attention_forward.h"
#include "ringlet/core/cpu/dispatch.h"
#include "ringlet/core/threads/parallel.h"

namespace ringlet::cpu::RINGLET_ISA {
namespace {

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
    parallel_for(device, args.shape.sentences * args.shape.heads, 4,
                 [&](std::int64_t begin, std::int64_t end) {
                   const PhiloxSchedule keys = schedule(key_of(args.shape.dropout));
                   for (std::int64_t i = begin; i < end; ++i)
                     backward_item(args, Item<T>(args.shape, i),
                                   Item<T>(args.shape, i + 1 < end ? i + 1 : i), keys);
                 });
    if (args.grad_relative_bias) add_shares<scalar_t<T>>(args);
  });
}

}  // namespace

void register_attention() {
  attention_kernel.set(DeviceType::cpu, attention);
  attention_backward_kernel.set(DeviceType::cpu, attention_backward);
}

}  // namespace ringlet::cpu::RINGLET_ISA
