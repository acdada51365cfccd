// Asynchronous CUDA devices in host memory. Enqueued work runs when the host waits for it, in an
// order that the seed chooses (delayed_streams.h). Work without an ordering runs at the worst time,
// and released memory is overwritten after the work of the stream that it belongs to.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "delayed_streams.h"
#include "host_device.h"
#include "ringlet/core/graph.h"
#include "ringlet/cuda/caching_allocator.h"

namespace ringlet {

class DelayedDevice final : public HostDevice {
 public:
  static constexpr int kDevices = 4;

  explicit DelayedDevice(unsigned seed = 1, int devices = kDevices)
      : DelayedDevice(seed, std::vector<std::string>(static_cast<std::size_t>(devices))) {}
  /// A device for each bus id.
  DelayedDevice(unsigned seed, std::vector<std::string> bus_ids)
      : bus_ids_(std::move(bus_ids)), streams_(seed) {
    for (std::size_t i = 0; i < bus_ids_.size(); ++i)
      memories_.emplace_back(*this, Device{DeviceType::cuda, static_cast<int>(i)});
  }
  ~DelayedDevice() override { run_all(); }

  /// How often the host has waited until the devices had nothing left to compute.
  int ran_dry() const { return ran_dry_; }
  /// How many copies from the host they were given.
  int uploads() const { return uploads_; }

  int device_count() const override { return static_cast<int>(memories_.size()); }
  std::string bus_id(Device device) const override { return bus_ids_[index(device)]; }

  Block allocate(Device device, std::size_t nbytes) override {
    const std::lock_guard lock(mutex_);
    return of(device).allocator.allocate(nbytes, &current(device));
  }
  void release(Device device, const Block& block) override {
    const std::lock_guard lock(mutex_);
    cuda::CachingAllocator& allocator = of(device).allocator;
    auto& owner = *static_cast<Stream*>(const_cast<void*>(allocator.stream_of(block)));
    streams_.give(owner, {[=] { std::memset(block.data, 0xff, block.nbytes); }},
                  {streams_.last(current(device))});
    allocator.release(block);
  }

  void copy(void* to, Device to_device, const void* from, Device from_device,
            std::size_t nbytes) override {
    if (to_device != from_device)
      for (const Device device : {to_device, from_device})
        check_not_capturing("a copy to or from the device", device);
    std::unique_lock lock(mutex_);
    if (from_device.type == DeviceType::cpu) {
      ++uploads_;
      const auto* bytes = static_cast<const std::byte*>(from);  // read before this returns
      streams_.give(current(to_device), {[to, read = std::vector(bytes, bytes + nbytes)] {
                      std::memcpy(to, read.data(), read.size());
                    }});
    } else if (to_device.type == DeviceType::cpu) {
      wait_for(streams_.last(current(from_device)), lock);
      std::memcpy(to, from, nbytes);
    } else {
      Stream &source = current(from_device), &target = current(to_device);
      streams_.give(target, {[=] { std::memmove(to, from, nbytes); }, true},
                    {streams_.last(source)});
      if (&source != &target) streams_.give(source, {}, {streams_.last(target)});
    }
  }
  void fetch(void* to, Device to_device, const void* from, Device, std::size_t nbytes) override {
    give(to_device, [=] { std::memcpy(to, from, nbytes); });
  }
  std::unique_ptr<Download> start_download(Device device, const void* from,
                                           std::size_t nbytes) override {
    const std::lock_guard lock(mutex_);
    auto download = std::make_unique<Started>(*this, nbytes);
    const auto read = [from, to = download->bytes] { std::memcpy(to->data(), from, to->size()); };
    streams_.give(current(device), {read});
    download->point = streams_.last(current(device));
    return download;
  }
  bool has_link(Device, Device) override { return has_links_; }
  void cut_links() { has_links_ = false; }
  /// By work that is done: kTick each, however long the host is at it or at anything else.
  static constexpr double kTick = 1e-3;
  std::unique_ptr<DeviceTime> device_time(Device device) override {
    check_not_capturing("a point in the device's time");
    const std::lock_guard lock(mutex_);
    auto time = std::make_unique<Ticks>(*this);
    streams_.give(current(device), {[this, at = time->at] { *at = streams_.computed(); }});
    time->point = streams_.last(current(device));
    return time;
  }
  bool is_asynchronous() const override { return true; }
  void synchronize(Device) override {
    check_not_capturing("waiting for the device");
    run_all();
    ++ran_dry_;
  }

  std::string why_no_graphs(Device) const override { return ""; }
  void begin_capture(Device device) override {
    const std::lock_guard lock(mutex_);
    of(device).allocator.trim();
    of(device).allocator.begin_capture(&current(device));
    streams_.begin_capture(current(device));
  }
  std::unique_ptr<DeviceGraph> end_capture(Device device) override {
    const std::lock_guard lock(mutex_);
    auto graph = std::make_unique<Captured>(*this, device, streams_.end_capture(current(device)));
    const std::size_t left = of(device).allocator.end_capture();
    RINGLET_CHECK(left == 0, "[graph] ", left, " bytes outlive the capture");
    return graph;
  }
  void abandon_capture(Device device) override {
    const std::lock_guard lock(mutex_);
    streams_.abandon_capture(current(device));
    of(device).allocator.end_capture();
  }

  std::unique_ptr<DeviceStream> make_stream(Device device) override {
    const std::lock_guard lock(mutex_);
    return std::make_unique<OwnStream>(device, streams_.make());
  }
  std::unique_ptr<DeviceEvent> make_event(Device device) override {
    return std::make_unique<OwnEvent>(*this, device);
  }
  void* stream(Device device) override {
    const std::lock_guard lock(mutex_);
    return &current(device);
  }
  bool is_captured(Device device) override {
    const std::lock_guard lock(mutex_);
    return streams_.captures(current(device));
  }

  // For libraries: their own work, and that which waits for other ranks'.
  using Point = DelayedStreams::Point;
  /// `call`, behind what the stream was given before and behind `after`.
  Point give_to(void* stream, Call call, std::vector<Point> after = {}) {
    const std::lock_guard lock(mutex_);
    auto& own = *static_cast<Stream*>(stream);
    streams_.give(own, {std::move(call), true}, std::move(after));
    return streams_.last(own);
  }
  /// Behind what the stream was given before; of a captured one, at each replay again.
  void meet_on(void* stream, DelayedStreams::Meeting meeting) {
    auto& own = *static_cast<Stream*>(stream);
    {
      const std::lock_guard lock(mutex_);
      if (streams_.captures(own)) return streams_.meet(own, std::move(meeting));
    }
    give_to(stream, {}, meeting(give_to(stream, {})));
  }
  Point promise() {
    const std::lock_guard lock(mutex_);
    return streams_.promise();
  }
  void keep(const Point& point, Call call, std::vector<Point> after) {
    const std::lock_guard lock(mutex_);
    streams_.keep(point, {std::move(call), true}, std::move(after));
  }

  MemoryStats memory(Device device) const override {
    return const_cast<DelayedDevice*>(this)->of(device).allocator.stats();
  }
  void count_sidecar(Device device, const Block&, std::ptrdiff_t nbytes) override {
    const std::lock_guard lock(mutex_);
    of(device).allocator.count_sidecar(nbytes);
  }
  void reset_peak(Device device) override { of(device).allocator.reset_peak(); }
  void set_limit(Device device, std::size_t nbytes) override {
    of(device).allocator.set_limit(nbytes);
  }

 private:
  using Stream = DelayedStreams::Stream;

  struct Started final : Download {
    Started(DelayedDevice& owner, std::size_t nbytes)
        : owner(owner), bytes(std::make_shared<std::vector<std::byte>>(nbytes)) {}
    const std::byte* wait() override {
      std::unique_lock lock(owner.mutex_);
      owner.wait_for(point, lock);
      return bytes->data();
    }
    DelayedDevice& owner;
    std::shared_ptr<std::vector<std::byte>> bytes;
    Point point;
  };

  struct Ticks final : DeviceTime {
    explicit Ticks(DelayedDevice& owner) : owner(owner) {}
    double seconds_since(const DeviceTime& earlier) const override {
      std::unique_lock lock(owner.mutex_);
      owner.wait_for(point, lock);
      return kTick * static_cast<double>(*at - *dynamic_cast<const Ticks&>(earlier).at);
    }
    DelayedDevice& owner;
    std::shared_ptr<std::uint64_t> at = std::make_shared<std::uint64_t>(0);
    Point point;
  };

  struct Captured final : DeviceGraph {
    Captured(DelayedDevice& owner, Device device, DelayedStreams::Graph graph)
        : owner(owner), device(device), graph(std::move(graph)) {
      owner.of(device).allocator.add_graph();
    }
    ~Captured() override {
      DelayedStreams::forget(graph);
      owner.of(device).allocator.remove_graph();
    }
    void replay() override { owner.replay(device, graph); }
    std::size_t nodes() const override { return graph.size(); }
    DelayedDevice& owner;
    Device device;
    DelayedStreams::Graph graph;
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
    OwnEvent(DelayedDevice& owner, Device device) : owner(owner), device(device) {}
    void record() override {
      const std::lock_guard lock(owner.mutex_);
      point = owner.streams_.last(owner.current(device));
    }
    void make_wait(Device waiting) override {
      const std::lock_guard lock(owner.mutex_);
      if (point) owner.streams_.give(owner.current(waiting), {}, {point});
    }
    bool done() override {
      const std::lock_guard lock(owner.mutex_);
      owner.streams_.run_any();  // so that polling ends
      return !point || point->done;
    }
    DelayedDevice& owner;
    Device device;
    Point point;
  };

  /// A segment is freed when no enqueued work can use it.
  struct Segments final : HostSegments {
    explicit Segments(DelayedDevice& owner) : owner(owner) {}
    void give_back(std::byte* segment) override {
      owner.run_all();
      HostSegments::give_back(segment);
    }
    DelayedDevice& owner;
  };
  struct Memory {
    Memory(DelayedDevice& owner, Device device)
        : segments(owner), allocator(device, segments), stream(owner.streams_.make()) {}
    Segments segments;
    cuda::CachingAllocator allocator;
    Stream* stream;  // of work for which none was chosen
  };

  static std::size_t index(Device device) { return static_cast<std::size_t>(device.index); }
  static std::array<Stream*, kDevices>& chosen() {
    thread_local std::array<Stream*, kDevices> streams{};
    return streams;
  }
  Memory& of(Device device) { return memories_[index(device)]; }
  Stream& current(Device device) {
    Stream* stream = chosen()[index(device)];
    return stream ? *stream : *of(device).stream;
  }

  /// The nodes belong to no stream; the dependencies of their capture order them.
  void replay(Device device, const DelayedStreams::Graph& graph) {
    Stream& stream = current(device);
    std::map<const DelayedStreams::Node*, Point> now;
    std::vector<Point> ends;
    for (const Point& node : graph) {
      std::vector<Point> after;
      for (const Point& before : node->after) after.push_back(now.at(before.get()));
      if (after.empty()) after.push_back(last(stream));
      ends.push_back(give_beside(node->work, after));
      // Without the lock: the other side of a meeting takes it while it holds its own.
      if (node->meeting) ends.push_back(give_beside({}, node->meeting(ends.back())));
      now[node.get()] = ends.back();
    }
    const std::lock_guard lock(mutex_);
    streams_.give(stream, {{}, true}, ends);
  }
  Point last(Stream& stream) {
    const std::lock_guard lock(mutex_);
    return streams_.last(stream);
  }
  Point give_beside(DelayedStreams::Work work, std::vector<Point> after) {
    const std::lock_guard lock(mutex_);
    return streams_.give_beside(std::move(work), std::move(after));
  }

  void give(Device device, Call call) override {
    const std::lock_guard lock(mutex_);
    streams_.give(current(device), {std::move(call), true});
  }
  using Lock = std::unique_lock<std::recursive_mutex>;
  /// Lets others give the device work, and keep what they promised.
  static std::function<void()> pause(Lock& lock) {
    return [&lock] {
      lock.unlock();
      std::this_thread::sleep_for(std::chrono::microseconds(50));
      lock.lock();
    };
  }
  void wait_for(const Point& point, Lock& lock) {
    ran_dry_ += streams_.run_until(point, pause(lock)) ? 0 : 1;
  }
  void run_all() {
    Lock lock(mutex_);
    streams_.run_all(pause(lock));
  }

  std::recursive_mutex mutex_;              // trimming waits for all work
  const std::vector<std::string> bus_ids_;  // empty where none was given
  DelayedStreams streams_;
  std::atomic<bool> has_links_{true};
  std::atomic<int> ran_dry_{0}, uploads_{0};
  std::deque<Memory> memories_;
};

}  // namespace ringlet
