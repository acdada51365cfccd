#include "ringlet/cuda/stream.h"

#include "ringlet/cuda/launch.h"

namespace ringlet::cuda {
namespace {

constexpr double kMostSeconds = 1;  // a host that is not ahead by then is never ahead

// One thread sleeps: the stream's later work waits for it, other streams do not.
__global__ void sleep_for(std::uint64_t nanoseconds) {
  std::uint64_t begin = 0, now = 0;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(begin));
  do {
    __nanosleep(1000);
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
  } while (now - begin < nanoseconds);
}

class EventTime final : public DeviceTime {
 public:
  explicit EventTime(Device device) : event_(device, /*timed=*/true) {
    event_.record(current_stream(device));
  }
  double seconds_since(const DeviceTime& earlier) const override {
    event_.synchronize();
    return 1e-3 * event_.milliseconds_since(dynamic_cast<const EventTime&>(earlier).event_);
  }

 private:
  Event event_;
};

}  // namespace

std::unique_ptr<DeviceTime> device_time(Device device) {
  return std::make_unique<EventTime>(device);
}

void hold(Device device, double seconds) {
  if (!(seconds > 0)) return;
  const auto nanoseconds =
      static_cast<std::uint64_t>(1e9 * (seconds < kMostSeconds ? seconds : kMostSeconds));
  launch("sleep_for", device, sleep_for, 1, 1, 0, nanoseconds);
}

}  // namespace ringlet::cuda
