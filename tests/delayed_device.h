// CUDA devices of host memory that run behind the host, as a GPU does: streams are queues, which
// are worked off only when the host waits for something, in an order that the seed chooses among
// those that streams and events allow. What nobody ordered happens at the worst time, and memory
// that was given back is overwritten behind the work of the stream that it belongs to. A captured
// stream, and those that wait for it, fill a graph, which runs in such an order at every replay.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "host_device.h"
#include "ringlet/core/graph.h"
#include "ringlet/cuda/caching_allocator.h"

namespace ringlet {

class DelayedDevice final : public HostDevice {
 public:
  static constexpr int kDevices = 4;

  explicit DelayedDevice(unsigned seed) : random_(seed) {
    for (int i = 0; i < kDevices; ++i) memories_.emplace_back(*this, Device{DeviceType::cuda, i});
  }
  ~DelayedDevice() override { run_all(); }

  int device_count() const override { return kDevices; }
  /// How often the host waited for work of a device.
  int waits() const { return waits_; }

  Block allocate(Device device, std::size_t nbytes) override {
    const std::lock_guard lock(mutex_);
    return of(device).allocator.allocate(nbytes, current(device));
  }
  void release(Device device, const Block& block) override {
    const std::lock_guard lock(mutex_);
    cuda::CachingAllocator& allocator = of(device).allocator;
    auto* owner = static_cast<Queue*>(const_cast<void*>(allocator.stream_of(block)));
    if (owner != current(device)) push(*owner, {}, {last(*current(device))});
    push(*owner, [=] { std::memset(block.data, 0xff, block.nbytes); });
    allocator.release(block);
  }

  void copy(void* to, Device to_device, const void* from, Device from_device,
            std::size_t nbytes) override {
    const auto* bytes = static_cast<const std::byte*>(from);
    if (from_device.type == DeviceType::cpu) {
      check_not_capturing("a copy to the device");
      give(to_device, [to, data = std::vector(bytes, bytes + nbytes)] {
        std::memcpy(to, data.data(), data.size());
      });
    } else if (to_device.type == DeviceType::cpu) {
      check_not_capturing("a copy from the device");
      ++waits_;
      const std::lock_guard lock(mutex_);
      run_until(last(*current(from_device)));
      std::memcpy(to, from, nbytes);
    } else {
      const std::lock_guard lock(mutex_);
      Queue &source = *current(from_device), &target = *current(to_device);
      const auto move = [=] { std::memmove(to, from, nbytes); };
      if (&source == &target) return push(target, move);
      push(target, move, {last(source)});
      push(source, {}, {last(target)});
    }
  }
  void fetch(void* to, Device to_device, const void* from, Device, std::size_t nbytes) override {
    give(to_device, [=] { std::memcpy(to, from, nbytes); });
  }
  void synchronize(Device) override {
    check_not_capturing("waiting for the device");
    ++waits_;
    run_all();
  }

  std::string why_no_graphs(Device) const override { return ""; }
  void begin_capture(Device device) override {
    const std::lock_guard lock(mutex_);
    Memory& memory = of(device);
    memory.allocator.trim();
    memory.allocator.begin_capture(current(device));
    capture_.emplace(current(device), device);
    push(*capture_->origin, {});
  }
  std::unique_ptr<DeviceGraph> end_capture(Device device) override {
    const std::lock_guard lock(mutex_);
    const Capture capture = *std::exchange(capture_, std::nullopt);
    const std::size_t left = of(device).allocator.end_capture();
    RINGLET_CHECK(left == 0, "[graph] ", left, " bytes outlive the capture");
    std::set<const Node*> joined;
    std::vector<Point> open{capture.last.at(capture.origin)};
    while (!open.empty()) {
      const Point point = open.back();
      open.pop_back();
      if (joined.insert(point.get()).second)
        open.insert(open.end(), point->after.begin(), point->after.end());
    }
    RINGLET_CHECK_EQ(joined.size(), capture.nodes.size(), "[graph] nodes that the end waits for");
    return std::make_unique<Captured>(*this, device, capture.nodes);
  }
  void abandon_capture(Device device) override {
    const std::lock_guard lock(mutex_);
    capture_.reset();
    of(device).allocator.end_capture();
  }

  std::unique_ptr<DeviceStream> make_stream(Device device) override {
    const std::lock_guard lock(mutex_);
    return std::make_unique<OwnStream>(device, &queues_.emplace_back());
  }
  std::unique_ptr<DeviceEvent> make_event(Device device) override {
    return std::make_unique<OwnEvent>(*this, device);
  }

  MemoryStats memory(Device device) const override {
    return const_cast<DelayedDevice*>(this)->of(device).allocator.stats();
  }
  void count_sidecar(Device, const Block&, std::ptrdiff_t) override {}
  void reset_peak(Device device) override { of(device).allocator.reset_peak(); }
  void set_limit(Device device, std::size_t nbytes) override {
    of(device).allocator.set_limit(nbytes);
  }

 private:
  struct Node {
    Call call;  // may be empty
    std::vector<std::shared_ptr<Node>> after;
    bool captured = false;
    bool done = false;
  };
  using Point = std::shared_ptr<Node>;
  struct Queue {
    std::deque<Point> waiting;
    Point last = std::make_shared<Node>(Node{{}, {}, false, true});
  };

  struct Capture {
    Capture(Queue* origin, Device device) : origin(origin), device(device) { last[origin]; }
    Queue* origin;
    Device device;
    std::map<const Queue*, Point> last;  // of the streams in it
    std::vector<Point> nodes;            // in the order in which they were given
  };
  struct Captured final : DeviceGraph {
    Captured(DelayedDevice& owner, Device device, std::vector<Point> points)
        : owner(owner), device(device), points(std::move(points)) {
      owner.of(device).allocator.add_graph();
    }
    ~Captured() override {
      owner.run_all();
      owner.of(device).allocator.remove_graph();
    }
    void replay() override {
      owner.give(device, [this] { owner.run_graph(points); });
    }
    std::size_t nodes() const override { return points.size(); }
    DelayedDevice& owner;
    Device device;
    std::vector<Point> points;
  };

  struct OwnStream final : DeviceStream {
    OwnStream(Device device, Queue* queue) : device(device), queue(queue) {}
    const void* enter() override { return std::exchange(chosen()[index(device)], queue); }
    void leave(const void* before) override {
      chosen()[index(device)] = static_cast<Queue*>(const_cast<void*>(before));
    }
    Device device;
    Queue* queue;
  };

  struct OwnEvent final : DeviceEvent {
    OwnEvent(DelayedDevice& owner, Device device) : owner(owner), device(device) {}
    void record() override {
      const std::lock_guard lock(owner.mutex_);
      point = owner.last(*owner.current(device));
    }
    void make_wait(Device waiting) override {
      const std::lock_guard lock(owner.mutex_);
      if (point) owner.push(*owner.current(waiting), {}, {point});
    }
    bool done() override {
      const std::lock_guard lock(owner.mutex_);
      owner.run_any();
      return !point || point->done;
    }
    DelayedDevice& owner;
    Device device;
    Point point;
  };

  /// Memory goes back when nothing that was given can use it.
  struct Segments final : HostSegments {
    explicit Segments(DelayedDevice& owner) : owner(owner) {}
    void give_back(std::byte* segment) override {
      owner.run_all();
      HostSegments::give_back(segment);
    }
    DelayedDevice& owner;
  };
  struct Memory {
    Memory(DelayedDevice& owner, Device device) : segments(owner), allocator(device, segments) {}
    Segments segments;
    cuda::CachingAllocator allocator;
    Queue queue;  // of work for which no stream was chosen
  };

  static std::size_t index(Device device) { return static_cast<std::size_t>(device.index); }
  static std::array<Queue*, kDevices>& chosen() {
    thread_local std::array<Queue*, kDevices> streams{};
    return streams;
  }

  Memory& of(Device device) { return memories_[index(device)]; }
  Queue* current(Device device) {
    Queue* stream = chosen()[index(device)];
    return stream ? stream : &of(device).queue;
  }
  Point last(const Queue& queue) const {
    const bool captured = capture_ && capture_->last.contains(&queue);
    return captured ? capture_->last.at(&queue) : queue.last;
  }

  void give(Device device, Call call) override {
    const std::lock_guard lock(mutex_);
    push(*current(device), std::move(call));
  }
  void push(Queue& queue, Call call, std::vector<Point> after = {}) {
    bool captured = capture_ && capture_->last.contains(&queue);
    for (const Point& point : after) captured = captured || point->captured;
    if (captured) return add_to_graph(queue, std::move(call), std::move(after));
    queue.last = std::make_shared<Node>(Node{std::move(call), std::move(after)});
    queue.waiting.push_back(queue.last);
  }

  void add_to_graph(Queue& queue, Call call, std::vector<Point> after) {
    RINGLET_CHECK(capture_, "[device] what was captured is waited for outside of its graph");
    for (const Point& point : after)
      RINGLET_CHECK(point->captured, "[device] a graph waits for what is outside of it");
    Point& last = capture_->last[&queue];
    if (last) after.push_back(last);
    last = std::make_shared<Node>(Node{std::move(call), std::move(after), true});
    capture_->nodes.push_back(last);
  }
  void run_graph(const std::vector<Point>& points) {
    std::vector<Point> left = points;
    std::set<const Node*> waiting;
    for (const Point& point : left) waiting.insert(point.get());
    while (!left.empty()) {
      std::vector<std::size_t> able;
      for (std::size_t i = 0; i < left.size(); ++i)
        if (std::none_of(left[i]->after.begin(), left[i]->after.end(),
                         [&](const Point& point) { return waiting.contains(point.get()); }))
          able.push_back(i);
      const auto chosen = left.begin() + static_cast<std::ptrdiff_t>(able[random_() % able.size()]);
      if ((*chosen)->call) (*chosen)->call();
      waiting.erase(chosen->get());
      left.erase(chosen);
    }
  }

  static bool ready(const Queue& queue) {
    if (queue.waiting.empty()) return false;
    for (const Point& point : queue.waiting.front()->after)
      if (!point->done) return false;
    return true;
  }
  static void run_first(Queue& queue) {
    const Point node = queue.waiting.front();
    queue.waiting.pop_front();
    if (node->call) node->call();
    node->call = {};
    node->after.clear();
    node->done = true;
  }
  /// One of those that can run; false where nothing can.
  bool run_any() {
    std::vector<Queue*> able;
    for (Memory& memory : memories_)
      if (ready(memory.queue)) able.push_back(&memory.queue);
    for (Queue& queue : queues_)
      if (ready(queue)) able.push_back(&queue);
    if (able.empty()) return false;
    run_first(*able[random_() % able.size()]);
    return true;
  }
  void run_until(const Point& point) {
    while (!point->done) RINGLET_CHECK(run_any(), "[device] its streams wait for each other");
  }
  void run_all() {
    const std::lock_guard lock(mutex_);
    while (run_any()) continue;
  }

  std::recursive_mutex mutex_;  // a kernel that a call ends in gives nothing, but its memory may go
  std::mt19937 random_;
  std::atomic<int> waits_{0};
  std::optional<Capture> capture_;
  std::deque<Queue> queues_;
  std::deque<Memory> memories_;
};

}  // namespace ringlet
