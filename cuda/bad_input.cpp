#include "ringlet/cuda/bad_input.h"

#include <array>
#include <atomic>
#include <mutex>
#include <new>

#include "ringlet/cuda/check.h"
#include "ringlet/cuda/graph.h"
#include "ringlet/cuda/stream.h"

namespace ringlet::cuda {
namespace {

// Never freed: kernels may run until the process ends.
std::array<std::atomic<FirstBadInput*>, kMostDevices> reports;

FirstBadInput* first_report(Device device) {
  static std::array<std::once_flag, kMostDevices> made;
  const auto i = static_cast<std::size_t>(device.index);
  std::call_once(made[i], [&] {
    const BesideCapture beside;
    reports[i] = new (allocate_pinned(device, sizeof(FirstBadInput))) FirstBadInput{};
  });
  return reports[i];
}

}  // namespace

BadInputReport::BadInputReport(Device device) : first_(first_report(device)) {}

void check_bad_input() {
  for (const std::atomic<FirstBadInput*>& report : reports) {
    FirstBadInput* const first = report.load(std::memory_order_acquire);
    if (!first) continue;
    const std::atomic_ref<BadInputKind> kind(first->input.kind);
    if (kind.load(std::memory_order_acquire) == BadInputKind::none) continue;
    const BadInput found = first->input;
    kind.store(BadInputKind::none, std::memory_order_relaxed);
    std::atomic_ref<unsigned>(first->is_claimed).store(0, std::memory_order_release);
    fail_bad_input(found);
  }
}

}  // namespace ringlet::cuda
