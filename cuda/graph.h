// Graphs: work enqueued on a stream during capture does not run; the graph can be launched many
// times. Graphs never run on several streams concurrently: graphs of a device share memory.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <memory>
#include <vector>

#include "ringlet/core/device/backend.h"
#include "ringlet/cuda/caching_allocator.h"
#include "ringlet/cuda/launch_gate.h"
#include "ringlet/cuda/stream.h"

namespace ringlet::cuda {

/// Whether `stream` is being captured.
bool is_capturing(cudaStream_t stream);

/// In a capture of this thread: each replay of its graph is a launch of the round.
void capture_round(const std::shared_ptr<LaunchRound>& round);

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

/// Releases a block that `user` has used last to its owner, ordered after that use. May run at the
/// program's exit, when the driver is unloaded, so CUDA errors are ignored.
void release_after_use(Device device, CachingAllocator& allocator, const MemoryBlock& block,
                       cudaStream_t user);

/// Captures, during its lifetime, what this thread enqueues on the stream that was the device's
/// current one in the constructor. Other threads must not use that stream, and this thread must not
/// synchronise with the device. Both are errors, of the call or of finish().
class DeviceCapture {
 public:
  DeviceCapture(Device device, CachingAllocator& allocator);
  /// Discards the capture, unless finish() was called.
  ~DeviceCapture();
  DeviceCapture(const DeviceCapture&) = delete;
  DeviceCapture& operator=(const DeviceCapture&) = delete;

  /// The graph's memory is kept for its lifetime. Error if blocks that were allocated during the
  /// capture are still in use.
  std::unique_ptr<DeviceGraph> finish();
  /// Releases the block, which `user` has used last, in this destructor (caching_allocator.h).
  void release_later(const MemoryBlock& block, cudaStream_t user) {
    later_.push_back({block, user});
  }

 private:
  struct Use {
    MemoryBlock block;
    cudaStream_t user;
  };
  /// Ends the allocator's part once; returns the bytes still in use.
  std::size_t end_blocks();

  Device device_;
  CachingAllocator& allocator_;
  cudaStream_t stream_;
  bool captures_ = true, takes_blocks_ = true;
  std::vector<Use> later_;
};

}  // namespace ringlet::cuda
