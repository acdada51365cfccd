#include "ringlet/cuda/graph.h"

#include <utility>

#include "ringlet/core/base/error.h"
#include "ringlet/core/device/graph.h"
#include "ringlet/cuda/check.h"

namespace ringlet::cuda {

bool is_capturing(cudaStream_t stream) {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  RINGLET_CUDA(cudaStreamIsCapturing(stream, &status));
  return status != cudaStreamCaptureStatusNone;
}

Graph::~Graph() {
  if (graph_) cudaGraphDestroy(graph_);
}
Graph::Graph(Graph&& other) noexcept : graph_(std::exchange(other.graph_, nullptr)) {}
Graph& Graph::operator=(Graph&& other) noexcept {
  std::swap(graph_, other.graph_);
  return *this;
}
std::size_t Graph::nodes() const {
  std::size_t count = 0;
  RINGLET_CUDA(cudaGraphGetNodes(graph_, nullptr, &count));
  return count;
}

GraphExec::GraphExec(Device device, const Graph& graph) : device_(device) {
  const DeviceGuard guard(device);
  // Nodes have the priorities of the streams that they were captured on, not the priority of the
  // launch's stream.
  RINGLET_CUDA(
      cudaGraphInstantiateWithFlags(&exec_, graph.get(), cudaGraphInstantiateFlagUseNodePriority));
}
GraphExec::~GraphExec() {
  if (exec_) cudaGraphExecDestroy(exec_);
}
GraphExec::GraphExec(GraphExec&& other) noexcept
    : device_(other.device_), exec_(std::exchange(other.exec_, nullptr)) {}
GraphExec& GraphExec::operator=(GraphExec&& other) noexcept {
  std::swap(device_, other.device_);
  std::swap(exec_, other.exec_);
  return *this;
}
void GraphExec::upload(cudaStream_t stream) const {
  const DeviceGuard guard(device_);
  RINGLET_CUDA(cudaGraphUpload(exec_, stream));
}
void GraphExec::launch(cudaStream_t stream) const {
  const DeviceGuard guard(device_);
  RINGLET_CUDA(cudaGraphLaunch(exec_, stream));
}

Capture::Capture(Device device) : stream_(current_stream(device)) {
  const DeviceGuard guard(device);
  RINGLET_CUDA(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal));
}
Capture::~Capture() {
  if (!open_) return;
  cudaGraph_t graph = nullptr;  // stays null if the capture is invalid
  cudaStreamEndCapture(stream_, &graph);
  if (graph) cudaGraphDestroy(graph);
  static_cast<void>(cudaGetLastError());  // otherwise the next check would report it
}
Graph Capture::finish() {
  open_ = false;
  cudaGraph_t graph = nullptr;
  const cudaError_t status = cudaStreamEndCapture(stream_, &graph);
  Graph captured(graph);
  RINGLET_CUDA(status);
  return captured;
}

BesideCapture::BesideCapture() { RINGLET_CUDA(cudaThreadExchangeStreamCaptureMode(&mode_)); }
BesideCapture::~BesideCapture() { cudaThreadExchangeStreamCaptureMode(&mode_); }

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
