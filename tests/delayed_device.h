// CUDA devices of host memory that run behind the host, as a GPU does: streams are queues, which
// are worked off only when the host waits for something, in an order that the seed chooses among
// those that streams and events allow. What nobody ordered happens at the worst time, and memory
// that was given back is overwritten behind the work of the stream that it belongs to.
#pragma once

#include <algorithm>
#include <array>
#include <chrono>
#include <deque>
#include <memory>
#include <mutex>
#include <random>
#include <thread>
#include <utility>

#include "host_device.h"
#include "ringlet/core/graph.h"
#include "ringlet/cuda/caching_allocator.h"

namespace ringlet {

class DelayedDevice final : public HostDevice {
 public:
  static constexpr int kDevices = 2;

  explicit DelayedDevice(unsigned seed) : random_(seed) {}
  ~DelayedDevice() override { run_all(); }

  int device_count() const override { return kDevices; }

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
      give(to_device, [to, data = std::vector(bytes, bytes + nbytes)] {
        std::memcpy(to, data.data(), data.size());
      });
    } else if (to_device.type == DeviceType::cpu) {
      std::unique_lock lock(mutex_);
      run_until(last(*current(from_device)), lock);
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
    std::unique_lock lock(mutex_);
    while (!idle()) run_one(lock);
  }

  std::unique_ptr<DeviceStream> make_stream(Device device) override {
    const std::lock_guard lock(mutex_);
    return std::make_unique<OwnStream>(device, &queues_.emplace_back());
  }
  std::unique_ptr<DeviceEvent> make_event(Device device) override {
    return std::make_unique<OwnEvent>(*this, device);
  }

  // For a library that works on the device: its own work, in streams that it was given, and points
  // in that which something on another thread must come to first.
  struct Node;
  using Point = std::shared_ptr<Node>;

  void* library_stream(Device device) override {
    const std::lock_guard lock(mutex_);
    return current(device);
  }
  /// `call`, behind what the stream was given before and behind `after`.
  Point give_to(void* stream, Call call, std::vector<Point> after = {}) {
    const std::lock_guard lock(mutex_);
    auto& queue = *static_cast<Queue*>(stream);
    push(queue, std::move(call), std::move(after));
    return queue.last;
  }
  /// One that the device does not come to before keep(), which somebody calls: who waits for it
  /// waits. Only the first call counts.
  Point promise() {
    const std::lock_guard lock(mutex_);
    ++promises_;
    return std::make_shared<Node>(Node{.promised = true});
  }
  void keep(const Point& point, Call call, std::vector<Point> after) {
    const std::lock_guard lock(mutex_);
    if (!std::exchange(point->promised, false)) return;
    --promises_;
    point->call = std::move(call);
    point->after = std::move(after);
    kept_.push_back(point);
  }

  MemoryStats memory(Device device) const override {
    return const_cast<DelayedDevice*>(this)->of(device).allocator.stats();
  }
  void count_sidecar(Device, const Block&, std::ptrdiff_t) override {}
  void reset_peak(Device device) override { of(device).allocator.reset_peak(); }
  void set_limit(Device device, std::size_t nbytes) override {
    of(device).allocator.set_limit(nbytes);
  }

  struct Node {
    Call call = {};  // may be empty
    std::vector<Point> after = {};
    bool done = false;
    bool promised = false;
  };

 private:
  struct Queue {
    std::deque<Point> waiting;
    unsigned turn = 0;  // the highest runs
    Point last = std::make_shared<Node>(Node{.done = true});
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
  static Point last(const Queue& queue) { return queue.last; }

  void give(Device device, Call call) override {
    const std::lock_guard lock(mutex_);
    push(*current(device), std::move(call));
  }
  void push(Queue& queue, Call call, std::vector<Point> after = {}) {
    queue.last = std::make_shared<Node>(Node{.call = std::move(call), .after = std::move(after)});
    queue.waiting.push_back(queue.last);
  }

  static bool ready(const Queue& queue) {
    return !queue.waiting.empty() && ready(*queue.waiting.front());
  }
  static bool ready(const Node& node) {
    return std::all_of(node.after.begin(), node.after.end(),
                       [](const Point& point) { return point->done; });
  }
  static Point take_first(Queue& queue) {
    const Point node = queue.waiting.front();
    queue.waiting.pop_front();
    return node;
  }
  static void run(const Point& node) {
    if (node->call) node->call();
    node->call = {};
    node->after.clear();
    node->done = true;
  }
  /// Of those that can run one whose turn it is, for some time: streams run far ahead of each
  /// other. False where nothing can.
  bool run_any() {
    constexpr unsigned kTime = 16;
    if (random_() % kTime == 0) draw_turns();
    Queue* next = nullptr;
    const auto consider = [&](Queue& queue) {
      if (ready(queue) && (!next || queue.turn > next->turn)) next = &queue;
    };
    for (Memory& memory : memories_) consider(memory.queue);
    for (Queue& queue : queues_) consider(queue);
    const auto kept = std::find_if(kept_.begin(), kept_.end(), [](auto& at) { return ready(*at); });
    if (!next && kept == kept_.end()) return false;
    if (kept != kept_.end() && (!next || turn_of_kept_ > next->turn)) {
      const Point node = *kept;
      kept_.erase(kept);
      run(node);
    } else {
      run(take_first(*next));
    }
    return true;
  }
  void draw_turns() {
    turn_of_kept_ = static_cast<unsigned>(random_());
    for (Memory& memory : memories_) memory.queue.turn = static_cast<unsigned>(random_());
    for (Queue& queue : queues_) queue.turn = static_cast<unsigned>(random_());
  }
  bool idle() const {
    const auto is_empty = [](const Queue& queue) { return queue.waiting.empty(); };
    return kept_.empty() && std::all_of(queues_.begin(), queues_.end(), is_empty) &&
           std::all_of(memories_.begin(), memories_.end(),
                       [&](const Memory& memory) { return is_empty(memory.queue); });
  }
  void run_one(std::unique_lock<std::recursive_mutex>& lock) {
    if (run_any()) return;
    RINGLET_CHECK(promises_ > 0, "[device] its streams wait for each other");
    lock.unlock();
    std::this_thread::sleep_for(std::chrono::microseconds(50));
    lock.lock();
  }
  void run_until(const Point& point, std::unique_lock<std::recursive_mutex>& lock) {
    while (!point->done) run_one(lock);
  }
  void run_all() {
    const std::lock_guard lock(mutex_);
    while (run_any()) continue;
  }

  std::recursive_mutex mutex_;  // a kernel that a call ends in gives nothing, but its memory may go
  std::mt19937 random_;
  std::deque<Queue> queues_;
  std::deque<Point> kept_;  // of no stream
  unsigned turn_of_kept_ = 0;
  int promises_ = 0;  // not kept yet
  std::array<Memory, kDevices> memories_{Memory(*this, {DeviceType::cuda, 0}),
                                         Memory(*this, {DeviceType::cuda, 1})};
};

}  // namespace ringlet
