#include "ringlet/cuda/graph.h"

#include <utility>

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

}  // namespace ringlet::cuda
