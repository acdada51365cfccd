// Reports of kernels about values that they cannot use (core/ops/bad_input.h). The first report
// stays in pinned memory until the host reads a result.
#pragma once

#include "ringlet/core/device/device.h"
#include "ringlet/core/ops/bad_input.h"

namespace ringlet::cuda {

/// The first report of a device.
struct FirstBadInput {
  unsigned is_claimed;  // 1 once a thread writes `input`, the kind last
  BadInput input;
};

/// An argument of kernels.
class BadInputReport {
 public:
  /// The one of `device`; usable while a stream is captured.
  explicit BadInputReport(Device device);

#if defined(__CUDACC__)
  __device__ __forceinline__ void operator()(BadInputKind kind, std::int64_t at, std::int64_t value,
                                             std::int64_t limit) const {
    if (atomicExch(&first_->is_claimed, 1) != 0) return;
    first_->input.at = at;
    first_->input.value = value;
    first_->input.limit = limit;
    const auto word = static_cast<unsigned>(kind);
    asm volatile("st.release.sys.global.u32 [%0], %1;" ::"l"(&first_->input.kind), "r"(word)
                 : "memory");
  }
#endif

 private:
  FirstBadInput* first_;  // pinned
};

/// Throws the first report of any device, if there is one, and clears it. Replicas of a step may be
/// on other devices than its result.
void check_bad_input();

}  // namespace ringlet::cuda
