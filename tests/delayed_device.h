// Asynchronous CUDA devices in host memory. Work without an ordering runs at the worst time.
// Released memory is overwritten after the work of the stream that it belongs to.
#pragma once

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "delayed_streams.h"
#include "ringlet/core/base/error.h"
#include "ringlet/cuda/caching_allocator.h"

namespace ringlet {

class DelayedDevice final : public DelayedStreams {
 public:
  explicit DelayedDevice(unsigned seed = 1, int devices = kDevices)
      : DelayedDevice(seed, std::vector<std::string>(static_cast<std::size_t>(devices))) {}
  /// A device for each bus id.
  DelayedDevice(unsigned seed, std::vector<std::string> bus_ids)
      : DelayedStreams(seed, bus_ids.size()), bus_ids_(std::move(bus_ids)) {
    for (int i = 0; i < device_count(); ++i) memories_.emplace_back(*this, i);
  }
  ~DelayedDevice() override { run_all(); }

  /// The number of copies from the host.
  int uploads() const { return uploads_; }

  int device_count() const override { return static_cast<int>(bus_ids_.size()); }
  std::string bus_id(Device device) const override { return bus_ids_[index(device)]; }
  bool has_link(Device, Device) override { return has_links_; }
  void cut_links() { has_links_ = false; }

  MemoryBlock allocate(Device device, std::size_t nbytes) override {
    const Lock lock(scheduler().mutex());
    return allocator(device).allocate(nbytes, &current(device));
  }
  void release(Device device, const MemoryBlock& block) override {
    const Lock lock(scheduler().mutex());
    auto& owner = *static_cast<Stream*>(const_cast<void*>(allocator(device).stream_of(block)));
    scheduler().enqueue(owner, moving([=] { std::memset(block.data, 0xff, block.nbytes); }),
                        {current(device).last});
    allocator(device).release(block);
  }
  MemoryStats memory(Device device) const override { return allocator(device).stats(); }
  void count_sidecar(Device device, const MemoryBlock& block, std::ptrdiff_t nbytes) override {
    allocator(device).count_sidecar(block, nbytes);
  }
  void reset_peak(Device device) override { allocator(device).reset_peak(); }
  void set_limit(Device device, std::size_t nbytes) override {
    allocator(device).set_limit(nbytes);
  }

  void copy(void* to, Device to_device, const void* from, Device from_device,
            std::size_t nbytes) override {
    if (to_device != from_device)
      for (const Device device : {to_device, from_device})
        check_not_capturing("a copy to or from the device", device);
    Lock lock(scheduler().mutex());
    if (from_device.type == DeviceType::cpu) {
      ++uploads_;
      const auto* bytes = static_cast<const std::byte*>(from);  // read before this returns
      const auto write = [to, read = std::vector(bytes, bytes + nbytes)] {
        std::memcpy(to, read.data(), read.size());
      };
      scheduler().enqueue(current(to_device), moving(write));
    } else if (to_device.type == DeviceType::cpu) {
      wait_for(current(from_device).last, lock);
      std::memcpy(to, from, nbytes);
    } else {
      Stream &source = current(from_device), &target = current(to_device);
      scheduler().enqueue(target, computing([=] { std::memmove(to, from, nbytes); }),
                          {source.last});
      if (&source != &target) scheduler().enqueue(source, {}, {target.last});
    }
  }
  void fetch(void* to, Device to_device, const void* from, Device, std::size_t nbytes) override {
    give(to_device, [=] { std::memcpy(to, from, nbytes); });
  }
  std::unique_ptr<DeviceDownload> start_download(Device device, const void* from,
                                                 std::size_t nbytes) override {
    const Lock lock(scheduler().mutex());
    auto download = std::make_unique<Started>(*this, nbytes);
    const auto read = [from, to = download->bytes] { std::memcpy(to->data(), from, to->size()); };
    download->point = scheduler().enqueue(current(device), moving(read));
    return download;
  }

  std::string why_no_graphs(Device) const override { return ""; }
  void begin_capture(Device device) override {
    const Lock lock(scheduler().mutex());
    allocator(device).trim();
    allocator(device).begin_capture(&current(device));
    scheduler().begin_capture(current(device), std::make_shared<streams::Capture>());
  }
  std::unique_ptr<DeviceGraph> end_capture(Device device) override {
    const Lock lock(scheduler().mutex());
    std::optional<streams::Graph> graph = scheduler().end_capture(current(device));
    const std::size_t left = allocator(device).end_capture();
    RINGLET_CHECK(graph, "[graph] a captured stream is not waited for");
    RINGLET_CHECK(left == 0, "[graph] ", left, " bytes outlive the capture");
    return std::make_unique<Captured>(*this, device, std::move(*graph));
  }
  void abandon_capture(Device device) override {
    const Lock lock(scheduler().mutex());
    scheduler().end_capture(current(device));
    allocator(device).end_capture();
  }
  void join_capture(Device device) override {
    const Lock lock(scheduler().mutex());
    allocator(device).join_capture(&current(device));
  }

 private:
  /// Segments of NaN, so that uninitialised reads are visible. One is freed when no enqueued work
  /// can use it. No call waits for that: its thread has the lock with which peers enqueue their
  /// part of a collective in flight.
  struct Memory final : cuda::SegmentSource {
    Memory(DelayedDevice& owner, int i)
        : owner(owner), allocator(Device{DeviceType::cuda, i}, *this) {}
    ~Memory() override {
      for (std::byte* segment : taken) std::free(segment);
    }
    Memory(const Memory&) = delete;
    Memory& operator=(const Memory&) = delete;
    std::byte* take(std::size_t nbytes) override {
      free_unused();
      auto* data = static_cast<std::byte*>(std::aligned_alloc(512, (nbytes + 511) / 512 * 512));
      std::memset(data, 0xff, nbytes);
      taken.insert(data);
      return data;
    }
    void give_back(std::byte* segment) override {
      unused.push_back(segment);
      free_unused();
    }
    void free_unused() {
      if (!owner.scheduler().is_idle()) return;
      for (std::byte* segment : std::exchange(unused, {})) {
        taken.erase(segment);
        std::free(segment);
      }
    }
    std::string situation() const override { return ""; }
    DelayedDevice& owner;
    std::set<std::byte*> taken;
    std::vector<std::byte*> unused;  // among the taken
    mutable cuda::CachingAllocator allocator;
  };

  struct Started final : DeviceDownload {
    Started(DelayedDevice& owner, std::size_t nbytes)
        : owner(owner), bytes(std::make_shared<std::vector<std::byte>>(nbytes)) {}
    const std::byte* wait() override {
      Lock lock(owner.scheduler().mutex());
      owner.wait_for(point, lock);
      return bytes->data();
    }
    DelayedDevice& owner;
    std::shared_ptr<std::vector<std::byte>> bytes;
    Point point;
  };

  struct Captured final : DeviceGraph {
    Captured(DelayedDevice& owner, Device device, streams::Graph graph)
        : owner(owner), device(device), graph(std::move(graph)) {
      for (std::size_t i = 0; i < this->graph.lanes; ++i) lanes.push_back(owner.new_stream());
      owner.allocator(device).add_graph();
    }
    ~Captured() override { owner.allocator(device).remove_graph(); }
    void replay() override {
      const Lock lock(owner.scheduler().mutex());
      owner.scheduler().replay(graph, owner.current(device), lanes);
    }
    std::size_t nodes() const override { return graph.nodes(); }
    DelayedDevice& owner;
    Device device;
    streams::Graph graph;
    std::vector<Stream*> lanes;
  };

  cuda::CachingAllocator& allocator(Device device) const {
    return memories_[index(device)].allocator;
  }

  const std::vector<std::string> bus_ids_;  // empty where none was given
  std::atomic<bool> has_links_{true};
  std::atomic<int> uploads_{0};
  std::deque<Memory> memories_;
};

}  // namespace ringlet
