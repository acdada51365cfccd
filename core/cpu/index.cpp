#include "ringlet/core/ops/index.h"

#include "ringlet/core/cpu/dispatch.h"
#include "ringlet/core/cpu/index_elements.h"
#include "ringlet/core/cpu/permute.h"
#include "ringlet/core/cpu/scatter.h"

namespace ringlet::cpu::RINGLET_ISA {
namespace {

void copy_blocks(const CopyBlocksArgs& args, Device device) {
  auto* out = static_cast<char*>(args.out);
  const auto* in = static_cast<const char*>(args.in);
  if (args.count == 1) {
    return parallel_for(
        device, args.nbytes, kGrainBytes,
        [&](std::int64_t begin, std::int64_t end) { copy(out + begin, in + begin, end - begin); });
  }
  for_each(device, args.count, kGrainBytes / args.nbytes + 1, [&](std::int64_t i) {
    copy(out + i * args.out_stride, in + i * args.in_stride, args.nbytes);
  });
}

template <class Index>
void gather_rows(const GatherArgs& args, Device device) {
  const auto* index = static_cast<const Index*>(args.index);
  const std::int64_t row = args.inner * args.itemsize;
  for_each(device, args.outer * args.n, kGrainBytes / row + 1, [&](std::int64_t r) {
    const std::int64_t from = checked("index_select", index[r % args.n], args.in_n);
    copy(static_cast<char*>(args.out) + r * row,
         static_cast<const char*>(args.in) + (r / args.n * args.in_n + from) * row, row);
  });
}

template <class T, class Index>
void gather_elements(const GatherArgs& args, Device device) {
  const std::int64_t inner = args.inner, in_n = args.in_n;
  for_each(device, args.outer * args.n, kGrainBytes / (inner * args.itemsize) + 1,
           [&](std::int64_t r) {
             const auto* index = static_cast<const Index*>(args.index) + r * inner;
             const T* from = static_cast<const T*>(args.in) + r / args.n * in_n * inner;
             T* out = static_cast<T*>(args.out) + r * inner;
             for (std::int64_t i = 0; i < inner; ++i)
               out[i] = from[checked("gather", index[i], in_n) * inner + i];
           });
}

void gather(const GatherArgs& args, Device device) {
  dispatch_index(args.index_dtype, [&]<class Index>() {
    if (args.whole_rows) return gather_rows<Index>(args, device);
    dispatch_word(args.itemsize, [&]<class T>() { gather_elements<T, Index>(args, device); });
  });
}

}  // namespace

void register_index() {
  copy_blocks_kernel.set(DeviceType::cpu, copy_blocks);
  permute_kernel.set(DeviceType::cpu, permute);
  gather_kernel.set(DeviceType::cpu, gather);
  scatter_add_kernel.set(DeviceType::cpu, scatter_add);
  scatter_kernel.set(DeviceType::cpu, scatter);
}

}  // namespace ringlet::cpu::RINGLET_ISA
