// A capture of a device's stream together with the memory that its blocks come from.
#pragma once

#include <memory>
#include <vector>

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

/// Gives a block that `user` has used last back to its owner, behind that use. May run while the
/// program ends, when the driver is gone, so errors of CUDA are passed over.
void release_behind(Device device, CachingAllocator& allocator, const Block& block,
                    cudaStream_t user);

/// One under way; forgotten unless finish() is called.
class DeviceCapture {
 public:
  DeviceCapture(Device device, CachingAllocator& allocator);
  ~DeviceCapture();
  DeviceCapture(const DeviceCapture&) = delete;
  DeviceCapture& operator=(const DeviceCapture&) = delete;

  /// Error where blocks that were allocated meanwhile are in use still.
  std::unique_ptr<DeviceGraph> finish();
  /// The block, which `user` has used last, is released when this goes (release_order.h).
  void release_later(const Block& block, cudaStream_t user) { later_.add(block, user); }

 private:
  struct Later {
    struct Use {
      Block block;
      cudaStream_t user;
    };
    Later(Device device, CachingAllocator& allocator) : device(device), allocator(allocator) {}
    ~Later() {
      for (const Use& use : uses) release_behind(device, allocator, use.block, use.user);
    }
    Later(const Later&) = delete;
    Later& operator=(const Later&) = delete;
    void add(const Block& block, cudaStream_t user) { uses.push_back({block, user}); }
    Device device;
    CachingAllocator& allocator;
    std::vector<Use> uses;
  };
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
  Later later_;  // goes last, when nothing is captured any more
  Blocks blocks_;
  Capture capture_;
};

}  // namespace ringlet::cuda
