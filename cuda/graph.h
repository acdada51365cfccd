// Graphs: work enqueued on a stream during capture does not run; the graph can be launched many
// times. Graphs never run on several streams concurrently: graphs of a device share memory.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <memory>
#include <vector>

#include "ringlet/core/device/backend.h"
#include "ringlet/cuda/caching_allocator.h"
#include "ringlet/cuda/stream.h"

namespace ringlet::cuda {

/// Whether `stream` is being captured.
bool is_capturing(cudaStream_t stream);

/// The captured nodes and their order.
class Graph {
 public:
  /// Owns `graph`, which may be null.
  explicit Graph(cudaGraph_t graph) : graph_(graph) {}
  ~Graph();
  Graph(Graph&& other) noexcept;
  Graph& operator=(Graph&& other) noexcept;

  cudaGraph_t get() const { return graph_; }
  std::size_t nodes() const;

 private:
  cudaGraph_t graph_;
};

/// An executable graph of a device; a launch in flight completes after the destructor.
class GraphExec {
 public:
  GraphExec(Device device, const Graph& graph);
  ~GraphExec();
  GraphExec(GraphExec&& other) noexcept;
  GraphExec& operator=(GraphExec&& other) noexcept;

  /// Allocates the device's memory for it, which the first launch would otherwise do.
  void upload(cudaStream_t stream) const;
  void launch(cudaStream_t stream) const;

 private:
  Device device_;
  cudaGraphExec_t exec_ = nullptr;
};

/// Captures, during its lifetime, what this thread enqueues on the stream that was the device's
/// current one in the constructor. Other threads must not use that stream, and this thread must not
/// synchronise with the device. Both are errors, of the call or of finish().
class Capture {
 public:
  explicit Capture(Device device);
  /// Discards the capture, unless finish() was called.
  ~Capture();
  Capture(const Capture&) = delete;
  Capture& operator=(const Capture&) = delete;

  Graph finish();

 private:
  cudaStream_t stream_;
  bool open_ = true;
};

/// For a scope, allows this thread calls that are unsafe during a capture and do not touch its
/// stream, e.g. cudaMalloc.
class BesideCapture {
 public:
  BesideCapture();
  ~BesideCapture();
  BesideCapture(const BesideCapture&) = delete;
  BesideCapture& operator=(const BesideCapture&) = delete;

 private:
  cudaStreamCaptureMode mode_ = cudaStreamCaptureModeRelaxed;
};

/// A captured graph: its memory is kept for its lifetime.
class CapturedGraph final : public DeviceGraph {
 public:
  CapturedGraph(Device device, const Graph& graph, CachingAllocator& allocator);
  ~CapturedGraph() override { allocator_.remove_graph(); }
  CapturedGraph(const CapturedGraph&) = delete;
  CapturedGraph& operator=(const CapturedGraph&) = delete;

  /// Error on a stream other than that of the capture: concurrent graphs would share memory.
  void replay() override;
  std::size_t nodes() const override { return nodes_; }

 private:
  Device device_;
  cudaStream_t stream_;
  std::size_t nodes_;
  GraphExec exec_;
  CachingAllocator& allocator_;
};

/// Releases a block that `user` has used last to its owner, ordered after that use. May run at the
/// program's exit, when the driver is unloaded, so CUDA errors are ignored.
void release_after_use(Device device, CachingAllocator& allocator, const MemoryBlock& block,
                       cudaStream_t user);

/// A capture in progress; discarded unless finish() is called.
class DeviceCapture {
 public:
  DeviceCapture(Device device, CachingAllocator& allocator);
  ~DeviceCapture();
  DeviceCapture(const DeviceCapture&) = delete;
  DeviceCapture& operator=(const DeviceCapture&) = delete;

  /// Error if blocks that were allocated during the capture are still in use.
  std::unique_ptr<DeviceGraph> finish();
  /// Releases the block, which `user` has used last, in this destructor (caching_allocator.h).
  void release_later(const MemoryBlock& block, cudaStream_t user) { later_.add(block, user); }

 private:
  struct Later {
    struct Use {
      MemoryBlock block;
      cudaStream_t user;
    };
    Later(Device device, CachingAllocator& allocator) : device(device), allocator(allocator) {}
    ~Later() {
      for (const Use& use : uses) release_after_use(device, allocator, use.block, use.user);
    }
    Later(const Later&) = delete;
    Later& operator=(const Later&) = delete;
    void add(const MemoryBlock& block, cudaStream_t user) { uses.push_back({block, user}); }
    Device device;
    CachingAllocator& allocator;
    std::vector<Use> uses;
  };
  /// The allocator's part of a capture.
  struct Blocks {
    Blocks(CachingAllocator& allocator, cudaStream_t stream);
    ~Blocks() { end(); }
    Blocks(const Blocks&) = delete;
    Blocks& operator=(const Blocks&) = delete;
    /// Ends the capture once; returns the bytes still in use.
    std::size_t end();
    CachingAllocator& allocator;
    bool open = true;
  };
  Device device_;
  Later later_;  // destroyed last, after the end of the capture
  Blocks blocks_;
  Capture capture_;
};

}  // namespace ringlet::cuda
