// The stub of a build for no GPU architecture: the host code of the device without its kernels.
#include "ringlet/core/base/error.h"
#include "ringlet/cuda/all_reduce.h"
#include "ringlet/cuda/launch.h"
#include "ringlet/cuda/stream.h"

#define RINGLET_DEFINE_EMPTY_FAMILY(family) \
  void register_##family() {}

namespace ringlet::cuda {
namespace {

[[noreturn]] void fail_without_kernels(const char* name) {
  fail("[", name, "] this build has no kernels for GPUs: configure with -Dgpu_arch=…");
}

}  // namespace

RINGLET_KERNEL_FAMILIES(RINGLET_DEFINE_EMPTY_FAMILY)

int most_all_reduce_blocks(Device, int) { fail_without_kernels("all_reduce"); }
AllReducePlan plan_all_reduce(CombineRoute, std::span<const std::int64_t>, DType, int,
                              std::int64_t) {
  fail_without_kernels("all_reduce");
}
void all_reduce(const PeerView&, const AllReducePlan&, const PeerCall&, std::span<const int>,
                double, Device) {
  fail_without_kernels("all_reduce");
}
void load_all_reduce(const PeerCall&, Device) { fail_without_kernels("all_reduce"); }

std::unique_ptr<DeviceTime> device_time(Device) { fail_without_kernels("device_time"); }
void hold(Device, double) { fail_without_kernels("hold"); }

}  // namespace ringlet::cuda
