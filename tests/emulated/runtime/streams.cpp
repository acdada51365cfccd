#include "streams.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <utility>

#include "../gpu/fault.h"
#include "../gpu/launch.h"
#include "pinned_accesses.h"

namespace ringlet::cuda {

[[gnu::weak]] bool may_call_driver();  // null in programs without the library

}  // namespace ringlet::cuda

namespace ringlet::emulated {
namespace {

constexpr std::size_t kMostPending = 4096;
// Emulated nanoseconds that a call goes on in program order, with several GPUs.
constexpr std::uint64_t kMostAtOnce = 64 * kSlice;

std::uint64_t number_of(const char* variable, std::uint64_t otherwise) {
  const char* const text = std::getenv(variable);
  return text ? std::strtoull(text, nullptr, 10) : otherwise;
}

Settings& held_settings() {
  static Settings held{number_of("RINGLET_EMULATED_SEED", 1),
                       static_cast<int>(number_of("RINGLET_EMULATED_DEVICES", 1)),
                       number_of("RINGLET_EMULATED_PEERS", 1) != 0};
  return held;
}

}  // namespace

void configure(const Settings& settings) { held_settings() = settings; }
const Settings& settings() { return held_settings(); }
int fault_count() { return Streams::instance().faults(); }

std::uint64_t emulated_nanoseconds() { return Streams::instance().nanoseconds(); }

int& current_device() {
  thread_local int device = 0;
  return device;
}

// Never destroyed: a program may end with work in flight.
Streams& Streams::instance() {
  static auto* const streams = new Streams;
  return *streams;
}

Streams::Streams() : Scheduler(settings().seed) { std::fprintf(stderr, "%s\n", kNotice); }

Stream* Streams::make(int device) {
  auto* const stream = new Stream;
  stream->id = next_id_++;
  stream->device = device;
  streams_.insert(stream);
  return stream;
}

void Streams::remove(Stream* stream) {
  streams_.erase(stream);
  delete stream;
}

Stream* Streams::of(cudaStream_t stream) {
  if (stream) return reinterpret_cast<Stream*>(stream);
  Stream*& held = defaults_[current_device()];
  if (!held) held = make(current_device());
  return held;
}

void Streams::enqueue(Stream* stream, StreamOperation operation) {
  call(*stream, [this, shared = std::make_shared<const StreamOperation>(std::move(operation))](
                    streams::Stream& on) { enqueue_now(static_cast<Stream&>(on), shared); });
}

void Streams::enqueue_now(Stream& stream, const std::shared_ptr<const StreamOperation>& operation) {
  const OperationOrder::Place place{stream.id, ++stream.operations, stream.device};
  if (operation->pinned.nbytes > 0) pinned_accesses().add(*operation, place);
  const auto start_it = [this, operation, place, host = host_](streams::Stream& on) {
    auto& started = static_cast<Stream&>(on);
    join(started.clock, *host);
    return start(started, *operation, place);
  };
  const Point point = enqueue(stream, {start_it, true});
  if (operation->waits && settings().devices > 1) waiting_launches_.push_back(point);
  go_on();
}

void Streams::delay_call(Lock& lock, const char* name) {
  if (settings().devices > 1 && cuda::may_call_driver && !cuda::may_call_driver())
    throw Fault(std::string(name) + " outside the launch gate");
  std::erase_if(waiting_launches_, streams::is_done);
  if (waiting_launches_.empty()) return;
  ++delayed_calls_;
  run_until(lock,
            [points = waiting_launches_] { return std::ranges::all_of(points, streams::is_done); });
  --delayed_calls_;
}

void Streams::delay_launch(Lock& lock) {
  if (delayed_calls_ > 0) run_until(lock, [&] { return delayed_calls_ == 0; });
}

Step Streams::start(Stream& stream, const StreamOperation& operation, OperationOrder::Place place) {
  StreamClock& clock = stream.clock;
  clock.resize(std::max<std::size_t>(clock.size(), place.stream + 1));
  clock[place.stream] = place.number;
  const OperationId id = operation_order().add(place, operation.name);
  const auto step = operation.start({id, clock});
  return [this, step, id, &clock] {
    nanoseconds_ += 1;
    try {
      if (step()) {
        join(clock, acquired_by(id));
        return true;
      }
    } catch (const std::exception& error) {
      fail(error);
      return true;
    }
    nanoseconds_ += kSlice;
    return false;
  };
}

void Streams::on_start(streams::Stream& stream, const streams::Node& node) {
  for (const Point& point : node.after) join(static_cast<Stream&>(stream).clock, point->clock);
}

void Streams::on_done(const streams::Stream& stream, streams::Node& node) {
  node.clock = static_cast<const Stream&>(stream).clock;
  node.nanoseconds = nanoseconds_;
}

cudaError_t Streams::finish(Lock& lock, const Stream* stream) {
  run_until(lock, [&] { return stream->is_idle(); });
  return host_has_seen(stream->clock);
}

cudaError_t Streams::finish_all(Lock& lock) {
  run_until(lock, [&] { return is_idle(); });
  StreamClock all;
  for (const Stream* stream : streams_) join(all, stream->clock);
  return host_has_seen(all);
}

cudaError_t Streams::finish(Lock& lock, const Point& point) {
  run_until(lock, [&] { return point->done; });
  return host_has_seen(point->clock);
}

cudaError_t Streams::host_has_seen(const StreamClock& clock) {
  auto seen = std::make_shared<StreamClock>(*host_);
  join(*seen, clock);
  host_ = std::move(seen);
  pinned_accesses().end(*host_);
  return std::exchange(fault_, cudaSuccess);
}

void Streams::go_on() {
  if (settings().seed == 0) {
    // A launch may wait for one of another GPU, which the host has yet to make.
    const bool waits = settings().devices > 1;
    for (const auto begin = nanoseconds_; !waits || nanoseconds_ - begin < kMostAtOnce;)
      if (!step()) break;
  } else if (pending() > kMostPending || random_() % 8 == 0) {
    step();
  }
}

void Streams::fail(const std::exception& error) {
  ++faults_;
  const std::string what = error.what();
  std::fprintf(stderr, "emulated GPU: %s\n", what.c_str());
  std::fflush(stderr);
  if (fault_ != cudaSuccess) return;
  fault_ = what.find("in no block of memory") != std::string::npos ? cudaErrorIllegalAddress
           : what.find("not aligned") != std::string::npos         ? cudaErrorMisalignedAddress
                                                                   : cudaErrorLaunchFailure;
}

}  // namespace ringlet::emulated
