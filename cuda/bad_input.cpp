#include "ringlet/cuda/bad_input.h"

#include <array>
#include <atomic>
#include <mutex>
#include <new>

#include "ringlet/cuda/check.h"
#include "ringlet/cuda/graph.h"
#include "ringlet/cuda/pinned.h"
#include "ringlet/cuda/stream.h"

namespace ringlet::cuda {
namespace {

// Never freed: kernels may run until the process ends.
FirstBadInput* first_report(Device device) {
  static std::array<std::once_flag, kMostDevices> made;
  static std::array<FirstBadInput*, kMostDevices> reports;
  const auto i = static_cast<std::size_t>(device.index);
  std::call_once(made[i], [&] {
    const BesideCapture beside;
    reports[i] = new (allocate_pinned(device, sizeof(FirstBadInput))) FirstBadInput{};
  });
  return reports[i];
}

}  // namespace

BadInputReport::BadInputReport(Device device) : first_(first_report(device)) {}

void check_bad_input(Device device) {
  FirstBadInput* const first = first_report(device);
  std::atomic_ref<unsigned> is_claimed(first->is_claimed);
  if (is_claimed.load(std::memory_order_acquire) == 0) return;
  const BadInput found = first->input;
  if (found.kind == BadInputKind::none) return;  // a kernel in flight is writing it
  first->input.kind = BadInputKind::none;
  is_claimed.store(0, std::memory_order_release);
  fail_bad_input(found);
}

}  // namespace ringlet::cuda
