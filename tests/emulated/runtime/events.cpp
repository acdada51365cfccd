// Streams and events.
#include "calls.h"

namespace {

using namespace ringlet::emulated;

cudaError_t wait_for(Call& call, Stream* stream) {
  if (stream->capture) {
    stream->capture->broken = cudaErrorStreamCaptureInvalidated;
    return cudaErrorStreamCaptureUnsupported;
  }
  const cudaError_t status =
      call.streams().run_until(call.lock(), [&] { return call.streams().is_idle(stream); });
  call.streams().host_has_seen(stream->clock);
  return status;
}

cudaStream_t handle(Stream* stream) { return reinterpret_cast<cudaStream_t>(stream); }

}  // namespace

namespace ringlet::emulated {

Work at_once(const std::string& name, std::function<void(const LaunchOrder&)> work,
             const PinnedBytes& pinned) {
  const auto start = [work = std::move(work)](const LaunchOrder& order) -> Step {
    return [work, order](std::int64_t) {
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
  Call call;
  Stream* const ended = call.streams().of(stream);
  const cudaError_t status = wait_for(call, ended);
  call.streams().remove(ended);
  return note(status);
}
cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  Call call;
  return note(wait_for(call, call.streams().of(stream)));
}
cudaError_t cudaDeviceGetStreamPriorityRange(int* lowest, int* highest) {
  *lowest = 0, *highest = -5;
  return cudaSuccess;
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags) {
  *event = reinterpret_cast<cudaEvent_t>(new Event{nullptr, (flags & cudaEventDisableTiming) == 0});
  return cudaSuccess;
}
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  delete event_of(event);
  return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  const Call call;
  event_of(event)->point = call.streams().record(call.streams().of(stream));
  return cudaSuccess;
}
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
  const Call call;
  const auto& point = event_of(event)->point;
  if (!point) return cudaSuccess;  // never recorded
  if (call.streams().wait(call.streams().of(stream), point)) return cudaSuccess;
  return note(cudaErrorStreamCaptureIsolation);
}
cudaError_t cudaEventQuery(cudaEvent_t event) {
  Call call;
  const auto point = event_of(event)->point;
  if (!point) return cudaSuccess;
  if (point->capture) return note(cudaErrorCapturedEvent);
  if (!point->done) call.streams().go_on();
  if (!point->done) return note(cudaErrorNotReady);
  call.streams().host_has_seen(point->clock);
  return note(call.streams().take_fault());
}
cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  Call call;
  const auto point = event_of(event)->point;
  if (!point) return cudaSuccess;
  if (point->capture) return note(cudaErrorCapturedEvent);
  const cudaError_t status = call.streams().run_until(call.lock(), [&] { return point->done; });
  call.streams().host_has_seen(point->clock);
  return note(status);
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
