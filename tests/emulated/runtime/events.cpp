// Streams and events.
#include "calls.h"

namespace {

using namespace ringlet::emulated;

/// An event: the point where it was recorded last.
struct Event {
  Point point{};
  bool timed = false;
};

Event* event_of(cudaEvent_t event) { return reinterpret_cast<Event*>(event); }

cudaStream_t handle(Stream* stream) { return reinterpret_cast<cudaStream_t>(stream); }

}  // namespace

namespace ringlet::emulated {

StreamOperation at_once(const std::string& name, std::function<void(const LaunchOrder&)> work,
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
  Call call;
  call.streams().delay_call(call.lock());
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
  Call call;
  call.streams().delay_call(call.lock());
  *event = reinterpret_cast<cudaEvent_t>(new Event{{}, (flags & cudaEventDisableTiming) == 0});
  return cudaSuccess;
}
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  delete event_of(event);
  return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  const Call call;
  event_of(event)->point = call.streams().enqueue(*call.streams().of(stream));
  return cudaSuccess;
}
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
  const Call call;
  const Point& point = event_of(event)->point;
  if (!point) return cudaSuccess;  // never recorded
  Stream& waiting = *call.streams().of(stream);
  if (!call.streams().may_wait(waiting, *point)) return note(cudaErrorStreamCaptureIsolation);
  call.streams().enqueue(waiting, {}, {point});
  return cudaSuccess;
}
cudaError_t cudaEventQuery(cudaEvent_t event) {
  Call call;
  const Point point = event_of(event)->point;
  if (!point) return cudaSuccess;
  if (point->capture) return note(cudaErrorCapturedEvent);
  if (!point->done) call.streams().go_on();
  if (!point->done) return note(cudaErrorNotReady);
  return note(call.streams().finish(call.lock(), point));
}
cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  Call call;
  const Point point = event_of(event)->point;
  if (!point) return cudaSuccess;
  if (point->capture) return note(cudaErrorCapturedEvent);
  return note(call.streams().finish(call.lock(), point));
}
cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t start, cudaEvent_t end) {
  const Call call;
  const Event &from = *event_of(start), &to = *event_of(end);
  if (!from.timed || !to.timed || !from.point || !to.point) return note(cudaErrorInvalidValue);
  if (!from.point->done || !to.point->done) return note(cudaErrorNotReady);
  *milliseconds = static_cast<float>(to.point->nanoseconds - from.point->nanoseconds) / 1e6f;
  return cudaSuccess;
}
}
