// State of one device: its memory, the pinned memory for copies and the current capture.
#pragma once

#include <memory>
#include <mutex>
#include <string>

#include "ringlet/cuda/caching_allocator.h"
#include "ringlet/cuda/device_graph.h"
#include "ringlet/cuda/downloads.h"
#include "ringlet/cuda/segment_source.h"
#include "ringlet/cuda/staging.h"

namespace ringlet::cuda {

class DeviceSegments final : public SegmentSource {
 public:
  explicit DeviceSegments(Device device) : device_(device) {}
  std::byte* take(std::size_t nbytes) override;
  void give_back(std::byte* segment) override;
  std::string situation() const override;

 private:
  Device device_;
};

/// Whether each block has a separate allocation (RINGLET_CUDA_EXACT), for compute-sanitizer.
bool blocks_are_exact();

struct DeviceMemory {
  explicit DeviceMemory(Device device)
      : segments(device), allocator(device, segments, blocks_are_exact()), downloads(device) {}

  DeviceSegments segments;
  CachingAllocator allocator;
  Downloads downloads;
  std::once_flag staging_made;
  std::unique_ptr<Staging> staging;
  std::mutex capture_mutex;
  std::unique_ptr<DeviceCapture> capture;
};

}  // namespace ringlet::cuda
