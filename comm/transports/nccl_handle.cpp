#include "ringlet/comm/transports/nccl_handle.h"

#include <utility>

#include "ringlet/comm/store.h"
#include "ringlet/core/base/error.h"
#include "ringlet/core/device/backend.h"
#include "ringlet/core/threads/thread.h"

namespace ringlet::comm {
namespace {

// NCCL goes back to the thread's current device, and were that none, there would be a context on
// the first one.
void make_current(Device device) noexcept {
  try {
    backend(device.type).stream(device);
  } catch (const std::exception&) {
    // The device has failed: NCCL finds that out as well.
  }
}

}  // namespace

NcclHandle::~NcclHandle() {
  abort();
  if (!ended_.valid() || ended_.wait_for(nccl().patience) == std::future_status::ready) return;
  try {
    report_(str(ending_, " has not come back in ", seconds_of(nccl().patience), " s: left behind"));
  } catch (const std::exception&) {
    // The callback threw; there is nowhere else to report it.
  }
}

void NcclHandle::end(const char* name, ncclResult_t (*call)(ncclComm_t)) noexcept {
  const ncclComm_t handle = std::exchange(handle_, nullptr);
  ending_ = name;
  try {
    std::packaged_task<void()> task([handle, call, device = device_] {
      make_current(device);
      call(handle);
    });
    ended_ = task.get_future();
    start_thread(std::move(task)).detach();
  } catch (const std::exception&) {  // there is no thread to be had
    call(handle);
  }
}

}  // namespace ringlet::comm
