// A CUDA device of host memory with the CPU's kernels, for programs without a GPU: what is captured
// on it is a list of calls, which a replay makes again with the numbers and addresses of then.
#pragma once

#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "host_device.h"
#include "ringlet/core/graph.h"
#include "ringlet/cuda/caching_allocator.h"

namespace ringlet {

class RecordingDevice final : public HostDevice {
 public:
  int device_count() const override { return 1; }
  Block allocate(Device, std::size_t nbytes) override {
    return allocator_.allocate(nbytes, &stream_);
  }
  void release(Device, const Block& block) override { allocator_.release(block); }
  void copy(void* to, Device to_device, const void* from, Device from_device,
            std::size_t nbytes) override {
    if (to_device != from_device) check_not_capturing("a copy to or from the device");
    give(to_device, [=] { std::memmove(to, from, nbytes); });
  }
  void synchronize(Device) override { check_not_capturing("waiting for the device"); }
  MemoryStats memory(Device) const override { return allocator_.stats(); }
  void count_sidecar(Device, const Block&, std::ptrdiff_t) override {}
  void reset_peak(Device) override { allocator_.reset_peak(); }
  void set_limit(Device, std::size_t nbytes) override { allocator_.set_limit(nbytes); }

  std::string why_no_graphs(Device) const override { return ""; }
  void begin_capture(Device) override {
    allocator_.trim();
    allocator_.begin_capture(&stream_);
    calls() = std::make_unique<Calls>();
  }
  std::unique_ptr<DeviceGraph> end_capture(Device) override {
    auto graph =
        std::make_unique<Recorded>(std::move(*std::exchange(calls(), nullptr)), allocator_);
    const std::size_t left = allocator_.end_capture();
    RINGLET_CHECK(left == 0, "[graph] ", left, " bytes outlive the capture");
    return graph;
  }
  void abandon_capture(Device) override {
    calls().reset();
    allocator_.end_capture();
  }

 private:
  using Calls = std::vector<Call>;

  struct Recorded final : DeviceGraph {
    Recorded(Calls calls, cuda::CachingAllocator& allocator)
        : calls(std::move(calls)), allocator(allocator) {
      allocator.add_graph();
    }
    ~Recorded() override { allocator.remove_graph(); }
    void replay() override {
      for (const Call& call : calls) call();
    }
    std::size_t nodes() const override { return calls.size(); }
    Calls calls;
    cuda::CachingAllocator& allocator;
  };

  /// Of the capture under way; null: calls are made at once.
  static std::unique_ptr<Calls>& calls() {
    static std::unique_ptr<Calls> under_way;
    return under_way;
  }
  void give(Device, Call call) override {
    if (calls())
      calls()->push_back(std::move(call));
    else
      call();
  }

  int stream_ = 0;  // its address serves as one
  HostSegments segments_;
  cuda::CachingAllocator allocator_{{DeviceType::cuda, 0}, segments_};
};

}  // namespace ringlet
