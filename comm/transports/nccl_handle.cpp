#include "ringlet/comm/transports/nccl_handle.h"

#include <mutex>
#include <utility>
#include <vector>

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

/// The threads that end communicators. It is made after CUDA, and so destroyed before.
class Endings {
 public:
  ~Endings() {
    const auto deadline = std::chrono::steady_clock::now() + nccl().patience;
    for (const std::shared_future<void>& ended : all_) ended.wait_until(deadline);
  }
  void add(const std::shared_future<void>& ended) {
    const std::lock_guard lock(mutex_);
    std::erase_if(all_, [](const auto& one) {
      return one.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
    });
    all_.push_back(ended);
  }

 private:
  std::mutex mutex_;
  std::vector<std::shared_future<void>> all_;
};

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
    ended_ = task.get_future().share();
    static Endings endings;
    endings.add(ended_);
    start_thread(std::move(task)).detach();
  } catch (const std::exception&) {  // there is no thread to be had
    call(handle);
  }
}

}  // namespace ringlet::comm
