// Captures and graphs. A replay enqueues the captured operations on the graph's private streams.
#include <thread>

#include "calls.h"

namespace {

using namespace ringlet::emulated;

/// An instantiated graph with its private streams.
struct Executable {
  Graph graph;
  std::vector<Stream*> lanes;
};

std::vector<CudaCapture*>& open_captures() {
  static auto* const open = new std::vector<CudaCapture*>;
  return *open;
}
unsigned long long captures = 0;
thread_local cudaStreamCaptureMode thread_mode = cudaStreamCaptureModeGlobal;

Graph* graph_of(cudaGraph_t graph) { return reinterpret_cast<Graph*>(graph); }
Executable* executable_of(cudaGraphExec_t graph) { return reinterpret_cast<Executable*>(graph); }

}  // namespace

namespace ringlet::emulated {

// Calls that may synchronise are not allowed during a capture unless the thread's mode is relaxed.
cudaError_t refuse_beside_captures() {
  if (thread_mode == cudaStreamCaptureModeRelaxed) return cudaSuccess;
  for (CudaCapture* const capture : open_captures()) {
    const bool concerns = capture->mode == cudaStreamCaptureModeGlobal
                              ? thread_mode == cudaStreamCaptureModeGlobal
                          : capture->mode == cudaStreamCaptureModeThreadLocal
                              ? capture->thread == std::this_thread::get_id()
                              : false;
    if (!concerns) continue;
    capture->broken = cudaErrorStreamCaptureInvalidated;
    return cudaErrorStreamCaptureUnsupported;
  }
  return cudaSuccess;
}

}  // namespace ringlet::emulated

extern "C" {

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode) {
  const Call call;
  Stream* const origin = call.streams().of(stream);
  if (!stream || origin->capture) return note(cudaErrorIllegalState);
  const auto capture = std::make_shared<CudaCapture>();
  capture->number = ++captures;
  capture->mode = mode;
  call.streams().begin_capture(*origin, capture);
  open_captures().push_back(capture.get());
  return cudaSuccess;
}
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  const Call call;
  *graph = nullptr;
  Stream* const origin = call.streams().of(stream);
  CudaCapture* const capture = capture_of(origin);
  if (!capture || capture->lanes[0].stream != origin) return note(cudaErrorIllegalState);
  std::erase(open_captures(), capture);
  const cudaError_t broken = capture->broken;
  auto captured = call.streams().end_capture(*origin);
  if (broken != cudaSuccess) return note(broken);
  if (!captured) return note(cudaErrorStreamCaptureUnjoined);
  *graph = reinterpret_cast<cudaGraph_t>(new Graph(std::move(*captured)));
  return cudaSuccess;
}
cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus* status) {
  return cudaStreamGetCaptureInfo(stream, status, nullptr, nullptr, nullptr, nullptr, nullptr);
}
cudaError_t cudaStreamGetCaptureInfo(cudaStream_t stream, cudaStreamCaptureStatus* status,
                                     unsigned long long* number, cudaGraph_t*,
                                     const cudaGraphNode_t**, const cudaGraphEdgeData**,
                                     std::size_t*) {
  const Call call;
  const CudaCapture* const capture = capture_of(call.streams().of(stream));
  *status = !capture                         ? cudaStreamCaptureStatusNone
            : capture->broken == cudaSuccess ? cudaStreamCaptureStatusActive
                                             : cudaStreamCaptureStatusInvalidated;
  if (capture && number) *number = capture->number;
  return cudaSuccess;
}
cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode* mode) {
  std::swap(thread_mode, *mode);
  return cudaSuccess;
}

cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t*, std::size_t* count) {
  *count = graph_of(graph)->nodes();
  return cudaSuccess;
}
cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  delete graph_of(graph);
  return cudaSuccess;
}
cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t* to, cudaGraph_t graph,
                                          unsigned long long) {
  Call call;
  call.streams().delay_call(call.lock());
  auto* const made = new Executable{*graph_of(graph), {}};
  for (std::size_t i = 0; i < made->graph.lanes; ++i)
    made->lanes.push_back(call.streams().make(current_device()));
  *to = reinterpret_cast<cudaGraphExec_t>(made);
  return cudaSuccess;
}
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t graph) {
  Call call;
  call.streams().delay_call(call.lock());
  Executable* const ended = executable_of(graph);
  for (Stream* const lane : ended->lanes) {
    note(call.streams().finish(call.lock(), lane));
    call.streams().remove(lane);
  }
  delete ended;
  return cudaSuccess;
}
cudaError_t cudaGraphUpload(cudaGraphExec_t, cudaStream_t) { return cudaSuccess; }
cudaError_t cudaGraphLaunch(cudaGraphExec_t graph, cudaStream_t stream) {
  Call call;
  Stream* const on = call.streams().of(stream);
  if (on->capture) return note(cudaErrorStreamCaptureUnsupported);
  call.streams().delay_launch(call.lock());
  const auto& [captured, lanes] = *executable_of(graph);
  call.streams().replay(captured, *on, {lanes.begin(), lanes.end()});
  return cudaSuccess;
}
}
