#include "ringlet/cuda/device_graph.h"

#include <utility>

#include "ringlet/core/base/error.h"
#include "ringlet/core/device/graph.h"

namespace ringlet::cuda {

CapturedGraph::CapturedGraph(Device device, const Graph& graph, CachingAllocator& allocator)
    : device_(device),
      stream_(current_stream(device)),
      nodes_(graph.nodes()),
      exec_(device, graph),
      allocator_(allocator) {
  exec_.upload(stream_);
  allocator_.add_graph();
}

void CapturedGraph::replay() {
  RINGLET_CHECK(current_stream(device_) == stream_,
                "[graph] captured on another stream than it is to run on");
  check_not_capturing("a replay");
  exec_.launch(stream_);
}

void release_after_use(Device device, CachingAllocator& allocator, const MemoryBlock& block,
                       cudaStream_t user) {
  try {
    const auto owner = static_cast<cudaStream_t>(const_cast<void*>(allocator.stream_of(block)));
    if (user != owner) {
      const Event used(device);
      used.record(user);
      used.make_wait(owner);
    }
  } catch (const Error&) {
  }
  try {
    allocator.release(block);
  } catch (const Error&) {
  }
}

DeviceCapture::Blocks::Blocks(CachingAllocator& allocator, cudaStream_t stream)
    : allocator(allocator) {
  allocator.begin_capture(stream);
}
std::size_t DeviceCapture::Blocks::end() {
  return std::exchange(open, false) ? allocator.end_capture() : 0;
}

DeviceCapture::DeviceCapture(Device device, CachingAllocator& allocator)
    : device_(device),
      later_(device, allocator),
      blocks_(allocator, current_stream(device)),
      capture_(device) {}
DeviceCapture::~DeviceCapture() = default;

std::unique_ptr<DeviceGraph> DeviceCapture::finish() {
  const Graph graph = capture_.finish();
  // First the graph, which keeps the memory, then end the allocator's capture.
  auto captured = std::make_unique<CapturedGraph>(device_, graph, blocks_.allocator);
  const std::size_t left = blocks_.end();
  RINGLET_CHECK(left == 0, "[graph] ", left, " bytes of tensors that were made in a capture on ",
                device_, " outlive it, where the next one would write over them");
  return captured;
}

}  // namespace ringlet::cuda
