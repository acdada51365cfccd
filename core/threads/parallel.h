// Threads: one pool per logical device; its workers sleep on futexes between kernels.
#pragma once

#include <cstdint>
#include <type_traits>

#include "ringlet/core/device/device.h"

namespace ringlet {

/// Threads of each cpu device, including the caller; applies to pools that are not started yet. The
/// default is RINGLET_NUM_THREADS (1 to 4096), else the number of processors in the affinity mask.
void set_threads_per_device(int threads);
int threads_per_device();

using ParallelBody = void (*)(void* context, std::int64_t begin, std::int64_t end);

/// Runs body over [0, n) in pieces of at least `grain`, on the device's threads and the caller;
/// returns when all are done. Any thread may run any piece, so a body must give the same bits for
/// any split. The first exception is rethrown. A nested call runs on the calling thread.
void parallel_for(Device device, std::int64_t n, std::int64_t grain, ParallelBody body,
                  void* context);

template <class F>
void parallel_for(Device device, std::int64_t n, std::int64_t grain, F&& body) {
  auto call = [](void* context, std::int64_t begin, std::int64_t end) {
    (*static_cast<std::remove_reference_t<F>*>(context))(begin, end);
  };
  parallel_for(device, n, grain, static_cast<ParallelBody>(call),
               const_cast<void*>(static_cast<const void*>(&body)));
}

}  // namespace ringlet
