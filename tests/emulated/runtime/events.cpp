// Streams and events.
#include "calls.h"

namespace {

using namespace ringlet::emulated;

/// An event: its most recent recording.
struct Event {
  Recording recording{};
  bool timed = false;
};

Event* event_of(cudaEvent_t event) { return reinterpret_cast<Event*>(event); }

cudaStream_t handle(Stream* stream) { return reinterpret_cast<cudaStream_t>(stream); }

}  // namespace

namespace ringlet::emulated {

Operation at_once(const std::string& name, std::function<void(const LaunchOrder&)> work,
                  const PinnedBytes& pinned) {
  const auto start = [work = std::move(work)](const LaunchOrder& order) -> Step {
    return [work, order] {
      work(order);
      return true;
    };
  };
  return {name, start, pinned};
}

}  // namespace ringlet::emulated

extern "C" {

cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned, int) {
  const Call call;
  *stream = handle(call.streams().make(current_device()));
  return cudaSuccess;
}
cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags) {
  return cudaStreamCreateWithPriority(stream, flags, 0);
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  const cudaError_t status = cudaStreamSynchronize(stream);
  const Call call;
  call.streams().remove(call.streams().of(stream));
  return status;
}
cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  Call call;
  const Stream* const waited = call.streams().of(stream);
  if (CudaCapture* const capture = capture_of(waited)) {
    capture->broken = cudaErrorStreamCaptureInvalidated;
    return note(cudaErrorStreamCaptureUnsupported);
  }
  return note(call.streams().finish(call.lock(), waited));
}
cudaError_t cudaDeviceGetStreamPriorityRange(int* lowest, int* highest) {
  *lowest = 0, *highest = -5;
  return cudaSuccess;
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags) {
  *event = reinterpret_cast<cudaEvent_t>(new Event{{}, (flags & cudaEventDisableTiming) == 0});
  return cudaSuccess;
}
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  delete event_of(event);
  return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  const Call call;
  event_of(event)->recording = call.streams().record(call.streams().of(stream));
  return cudaSuccess;
}
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
  const Call call;
  const Recording& recording = event_of(event)->recording;
  if (!recording.point) return cudaSuccess;  // never recorded
  if (call.streams().wait(call.streams().of(stream), recording)) return cudaSuccess;
  return note(cudaErrorStreamCaptureIsolation);
}
cudaError_t cudaEventQuery(cudaEvent_t event) {
  Call call;
  const Recording recording = event_of(event)->recording;
  if (!recording.point) return cudaSuccess;
  if (recording.point->capture) return note(cudaErrorCapturedEvent);
  if (!recording.point->done) call.streams().go_on();
  if (!recording.point->done) return note(cudaErrorNotReady);
  return note(call.streams().finish(call.lock(), recording));
}
cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  Call call;
  const Recording recording = event_of(event)->recording;
  if (!recording.point) return cudaSuccess;
  if (recording.point->capture) return note(cudaErrorCapturedEvent);
  return note(call.streams().finish(call.lock(), recording));
}
cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t start, cudaEvent_t end) {
  const Call call;
  const Event &from = *event_of(start), &to = *event_of(end);
  const Point &first = from.recording.point, &last = to.recording.point;
  if (!from.timed || !to.timed || !first || !last) return note(cudaErrorInvalidValue);
  if (!first->done || !last->done) return note(cudaErrorNotReady);
  *milliseconds =
      static_cast<float>(to.recording.state->nanoseconds - from.recording.state->nanoseconds) /
      1e6f;
  return cudaSuccess;
}
}
