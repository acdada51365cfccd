// Captures and graphs. A replay enqueues the captured operations on the graph's private streams.
#include <functional>
#include <map>
#include <thread>

#include "calls.h"

namespace {

using namespace ringlet::emulated;

std::vector<Capture*>& open_captures() {
  static auto* const open = new std::vector<Capture*>;
  return *open;
}
unsigned long long captures = 0;

std::size_t this_thread() { return std::hash<std::thread::id>()(std::this_thread::get_id()); }
thread_local cudaStreamCaptureMode thread_mode = cudaStreamCaptureModeGlobal;

CapturedLanes* graph_of(cudaGraph_t graph) { return reinterpret_cast<CapturedLanes*>(graph); }
Executable* executable_of(cudaGraphExec_t graph) { return reinterpret_cast<Executable*>(graph); }

// Whether every captured stream has been joined to the origin.
bool is_joined(const Capture& capture) {
  const Capture::Lane& origin = capture.lanes[0];
  for (std::size_t i = 1; i < capture.lanes.size(); ++i)
    if (i >= origin.clock.size() || origin.clock[i] < capture.lanes[i].items) return false;
  return true;
}

}  // namespace

namespace ringlet::emulated {

// Calls that may synchronise are not allowed during a capture unless the thread's mode is relaxed.
cudaError_t refuse_beside_captures() {
  if (thread_mode == cudaStreamCaptureModeRelaxed) return cudaSuccess;
  for (Capture* const capture : open_captures()) {
    const bool concerns =
        capture->mode == cudaStreamCaptureModeGlobal ? thread_mode == cudaStreamCaptureModeGlobal
        : capture->mode == cudaStreamCaptureModeThreadLocal ? capture->thread == this_thread()
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
  auto* const capture = new Capture;
  capture->number = ++captures;
  capture->mode = mode;
  capture->thread = this_thread();
  capture->lanes.push_back({origin, 0, {}});
  origin->capture = capture;
  origin->lane = 0;
  open_captures().push_back(capture);
  return cudaSuccess;
}
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  const Call call;
  *graph = nullptr;
  Capture* const capture = call.streams().of(stream)->capture;
  if (!capture || capture->lanes[0].stream != call.streams().of(stream))
    return note(cudaErrorIllegalState);
  for (const Capture::Lane& lane : capture->lanes) lane.stream->capture = nullptr;
  std::erase(open_captures(), capture);
  if (capture->broken != cudaSuccess) return note(capture->broken);
  if (!is_joined(*capture)) return note(cudaErrorStreamCaptureUnjoined);
  auto* const captured = new CapturedLanes{capture->entries, capture->lanes.size(), 0};
  for (const Capture::Entry& entry : captured->entries)
    if (entry.item.kind == Item::Kind::work) ++captured->works;
  *graph = reinterpret_cast<cudaGraph_t>(captured);
  return cudaSuccess;  // `capture` stays: events that were recorded in it name it
}
cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus* status) {
  const Call call;
  const Stream* const asked = call.streams().of(stream);
  *status = !asked->capture                         ? cudaStreamCaptureStatusNone
            : asked->capture->broken == cudaSuccess ? cudaStreamCaptureStatusActive
                                                    : cudaStreamCaptureStatusInvalidated;
  return cudaSuccess;
}
cudaError_t cudaStreamGetCaptureInfo(cudaStream_t stream, cudaStreamCaptureStatus* status,
                                     unsigned long long* number, cudaGraph_t*,
                                     const cudaGraphNode_t**, const cudaGraphEdgeData**,
                                     std::size_t*) {
  const cudaError_t error = cudaStreamIsCapturing(stream, status);
  const Call call;
  if (const Capture* const capture = call.streams().of(stream)->capture; capture && number)
    *number = capture->number;
  return error;
}
cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode* mode) {
  std::swap(thread_mode, *mode);
  return cudaSuccess;
}

cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t*, std::size_t* count) {
  *count = graph_of(graph)->works;
  return cudaSuccess;
}
cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  delete graph_of(graph);
  return cudaSuccess;
}
cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t* to, cudaGraph_t graph,
                                          unsigned long long) {
  const Call call;
  auto* const made = new Executable{*graph_of(graph), {}};
  for (std::size_t i = 0; i < made->graph.lanes; ++i)
    made->streams.push_back(call.streams().make(current_device()));
  *to = reinterpret_cast<cudaGraphExec_t>(made);
  return cudaSuccess;
}
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t graph) {
  Call call;
  Executable* const ended = executable_of(graph);
  for (Stream* const stream : ended->streams) {
    const cudaError_t status =
        call.streams().run_until(call.lock(), [&] { return call.streams().is_idle(stream); });
    if (status != cudaSuccess) note(status);
    call.streams().remove(stream);
  }
  delete ended;
  return cudaSuccess;
}
cudaError_t cudaGraphUpload(cudaGraphExec_t, cudaStream_t) { return cudaSuccess; }
cudaError_t cudaGraphLaunch(cudaGraphExec_t graph, cudaStream_t stream) {
  const Call call;
  Streams& streams = call.streams();
  Stream* const on = streams.of(stream);
  if (on->capture) return note(cudaErrorStreamCaptureUnsupported);
  Executable& launched = *executable_of(graph);
  const auto begin = streams.record(on);
  for (Stream* const lane : launched.streams) streams.wait(lane, begin);
  std::map<const Point*, std::shared_ptr<Point>> points;  // of the capture, to those of this replay
  for (const Capture::Entry& entry : launched.graph.entries) {
    Stream* const lane = launched.streams[entry.lane];
    if (entry.item.kind == Item::Kind::work)
      streams.enqueue(lane, entry.item.work);
    else if (entry.item.kind == Item::Kind::record)
      points[entry.item.point.get()] = streams.record(lane);
    else
      streams.wait(lane, points.at(entry.item.point.get()));
  }
  for (Stream* const lane : launched.streams) streams.wait(on, streams.record(lane));
  return cudaSuccess;
}
}
