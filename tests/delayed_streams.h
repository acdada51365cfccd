// Streams, events and the clock of emulated CUDA devices. Enqueued work runs when the host waits
// for it, in an order that the seed chooses (streams/scheduler.h).
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <utility>
#include <vector>

#include "host_device.h"
#include "ringlet/core/base/error.h"
#include "ringlet/core/device/backend.h"
#include "ringlet/core/device/graph.h"
#include "streams/scheduler.h"

namespace ringlet {

class DelayedStreams : public HostDevice {
 public:
  static constexpr int kDevices = 4;
  static constexpr double kTick = 1e-3;  // seconds of the clock for an operation that computes

  /// How often the host has waited until the devices had nothing left to compute.
  int ran_dry() const { return ran_dry_; }
  /// For libraries; stream() returns its streams. Its lock is held while work runs.
  streams::Scheduler& scheduler() { return scheduler_; }
  streams::Work computing(Call call) {
    const auto run = [this, call = std::move(call)] {
      call();
      ++computed_;
    };
    return {moving(run).start, true};
  }

  void give(Device device, Call call) override {
    const Lock lock(scheduler_.mutex());
    scheduler_.enqueue(current(device), computing(std::move(call)));
  }

  bool is_asynchronous() const override { return true; }
  void synchronize(Device) override {
    check_not_capturing("waiting for the device");
    run_all();
    ++ran_dry_;
  }
  /// By operations done, however long the host takes for them or for anything else.
  std::unique_ptr<DeviceTime> device_time(Device device) override {
    check_not_capturing("a point in the device's time");
    const Lock lock(scheduler_.mutex());
    auto time = std::make_unique<Ticks>(*this);
    time->point =
        scheduler_.enqueue(current(device), moving([this, at = time->at] { *at = computed_; }));
    return time;
  }

  std::unique_ptr<DeviceStream> make_stream(Device device, StreamPriority) override {
    const Lock lock(scheduler_.mutex());
    return std::make_unique<OwnStream>(device, new_stream());
  }
  std::unique_ptr<DeviceEvent> make_event(Device device) override {
    return std::make_unique<OwnEvent>(*this, device);
  }
  void* stream(Device device) override {
    const Lock lock(scheduler_.mutex());
    return &current(device);
  }
  bool is_captured(Device device) override {
    const Lock lock(scheduler_.mutex());
    return current(device).capture != nullptr;
  }

 protected:
  using Lock = streams::Scheduler::Lock;
  using Point = streams::Point;
  using Stream = streams::Stream;

  DelayedStreams(unsigned seed, std::size_t devices) : scheduler_(seed), streams_(devices) {}

  static std::size_t index(Device device) { return static_cast<std::size_t>(device.index); }
  /// The stream of this thread's work.
  Stream& current(Device device) {
    Stream* const stream = chosen()[index(device)];
    return stream ? *stream : streams_[index(device)];
  }
  Stream* new_stream() { return &streams_.emplace_back(); }

  /// Work that does not compute.
  static streams::Work moving(Call call) {
    return {[call = std::move(call)](Stream&) -> streams::Step {
      call();
      return nullptr;
    }};
  }
  void wait_for(const Point& point, Lock& lock) {
    ran_dry_ += scheduler_.computes_more_than(point) ? 0 : 1;
    scheduler_.run_until(lock, [&] { return streams::is_done(point); });
  }
  void run_all() {
    Lock lock(scheduler_.mutex());
    scheduler_.run_until(lock, [&] { return scheduler_.is_idle(); });
  }

 private:
  struct Ticks final : DeviceTime {
    explicit Ticks(DelayedStreams& owner) : owner(owner) {}
    double seconds_since(const DeviceTime& earlier) const override {
      Lock lock(owner.scheduler_.mutex());
      owner.wait_for(point, lock);
      return kTick * static_cast<double>(*at - *dynamic_cast<const Ticks&>(earlier).at);
    }
    DelayedStreams& owner;
    std::shared_ptr<std::uint64_t> at = std::make_shared<std::uint64_t>(0);
    Point point;
  };

  struct OwnStream final : DeviceStream {
    OwnStream(Device device, Stream* stream) : device(device), stream(stream) {}
    const void* enter() override { return std::exchange(chosen()[index(device)], stream); }
    void leave(const void* before) override {
      chosen()[index(device)] = static_cast<Stream*>(const_cast<void*>(before));
    }
    Device device;
    Stream* stream;
  };

  struct OwnEvent final : DeviceEvent {
    OwnEvent(DelayedStreams& owner, Device device) : owner(owner), device(device) {}
    void record() override {
      const Lock lock(owner.scheduler_.mutex());
      point = owner.current(device).last;
    }
    void make_wait(Device waiting) override {
      const Lock lock(owner.scheduler_.mutex());
      if (!point) return;
      Stream& stream = owner.current(waiting);
      RINGLET_CHECK(owner.scheduler_.may_wait(stream, *point),
                    "[graph] a stream waits for a point outside of its capture");
      owner.scheduler_.enqueue(stream, {}, {point});
    }
    bool done() override {
      const Lock lock(owner.scheduler_.mutex());
      owner.scheduler_.step();  // so that polling ends
      return streams::is_done(point);
    }
    DelayedStreams& owner;
    Device device;
    Point point;
  };

  static std::array<Stream*, kDevices>& chosen() {
    thread_local std::array<Stream*, kDevices> streams{};
    return streams;
  }

  streams::Scheduler scheduler_;
  std::deque<Stream> streams_;  // the devices' own first; kept, since blocks of memory name them
  std::uint64_t computed_ = 0;  // operations so far
  std::atomic<int> ran_dry_{0};
};

}  // namespace ringlet
