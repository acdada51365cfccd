// A capture of a device's stream together with the memory that its blocks come from.
#pragma once

#include <memory>

#include "ringlet/core/backend.h"
#include "ringlet/cuda/caching_allocator.h"
#include "ringlet/cuda/graph.h"

namespace ringlet::cuda {

/// One that was captured: its memory stays as long as it does.
class CapturedGraph final : public DeviceGraph {
 public:
  CapturedGraph(Device device, const Graph& graph, CachingAllocator& allocator);
  ~CapturedGraph() override { allocator_.remove_graph(); }
  CapturedGraph(const CapturedGraph&) = delete;
  CapturedGraph& operator=(const CapturedGraph&) = delete;

  /// Error on another stream than that of the capture: two graphs at once would share memory.
  void replay() override;
  std::size_t nodes() const override { return nodes_; }

 private:
  Device device_;
  cudaStream_t stream_;
  std::size_t nodes_;
  GraphExec exec_;
  CachingAllocator& allocator_;
};

/// One under way; forgotten unless finish() is called.
class DeviceCapture {
 public:
  DeviceCapture(Device device, CachingAllocator& allocator);
  ~DeviceCapture();
  DeviceCapture(const DeviceCapture&) = delete;
  DeviceCapture& operator=(const DeviceCapture&) = delete;

  /// Error where blocks that were allocated meanwhile are in use still.
  std::unique_ptr<DeviceGraph> finish();

 private:
  /// The blocks' half of a capture.
  struct Blocks {
    Blocks(CachingAllocator& allocator, cudaStream_t stream);
    ~Blocks() { end(); }
    Blocks(const Blocks&) = delete;
    Blocks& operator=(const Blocks&) = delete;
    /// The bytes in use, once.
    std::size_t end();
    CachingAllocator& allocator;
    bool open = true;
  };
  Device device_;
  Blocks blocks_;
  Capture capture_;
};

}  // namespace ringlet::cuda
