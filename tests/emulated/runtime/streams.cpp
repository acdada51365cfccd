#include "streams.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <thread>

#include "../emulated.h"
#include "../gpu/fault.h"
#include "pinned_accesses.h"

namespace ringlet::emulated {
namespace {

constexpr std::int64_t kSlice = 20000;  // instructions of warps between two looks at other streams
constexpr std::size_t kMostPending = 4096;

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

// Never destroyed: a program may end with work in flight.
Streams& Streams::instance() {
  static auto* const streams = new Streams;
  return *streams;
}

Stream* Streams::make(int device) {
  if (next_id_ == 0) {
    random_.seed(settings().seed);
    std::fprintf(stderr, "%s\n", kNotice);
  }
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

void Streams::enqueue(Stream* stream, Work work) {
  if (Capture* const capture = stream->capture) {
    Capture::Lane& lane = capture->lanes[stream->lane];
    ++lane.items;
    capture->entries.push_back({stream->lane, {Item::Kind::work, std::move(work), {}, {}}});
    return;
  }
  if (work.pinned.nbytes > 0) pinned_accesses().add(work, {stream->id, stream->enqueued + 1});
  ++stream->enqueued;
  stream->items.push_back({Item::Kind::work, std::move(work), {}, host_});
  go_on();
}

std::shared_ptr<Point> Streams::record(Stream* stream) {
  auto point = std::make_shared<Point>();
  if (Capture* const capture = stream->capture) {
    Capture::Lane& lane = capture->lanes[stream->lane];
    point->capture = capture;
    point->clock = lane.clock;
    point->clock.resize(std::max(point->clock.size(), stream->lane + 1));
    point->clock[stream->lane] = lane.items;
    capture->entries.push_back({stream->lane, {Item::Kind::record, {}, point, {}}});
    return point;
  }
  stream->items.push_back({Item::Kind::record, {}, point, host_});
  return point;
}

bool Streams::wait(Stream* stream, const std::shared_ptr<Point>& point) {
  if (point->capture && !stream->capture) {  // it joins the capture
    stream->capture = point->capture;
    stream->lane = point->capture->lanes.size();
    point->capture->lanes.push_back({stream, 0, {}});
  }
  if (stream->capture != point->capture) return false;
  if (Capture* const capture = stream->capture) {
    join(capture->lanes[stream->lane].clock, point->clock);
    capture->entries.push_back({stream->lane, {Item::Kind::wait, {}, point, {}}});
  } else {
    stream->items.push_back({Item::Kind::wait, {}, point, host_});
  }
  return true;
}

bool Streams::can_advance(const Stream& stream) const {
  if (stream.running) return true;
  if (stream.items.empty()) return false;
  const Item& head = stream.items.front();
  return head.kind != Item::Kind::wait || head.point->done;
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

// Returns true once the head of the queue has completed.
bool Streams::advance(Stream& stream) {
  if (!stream.running) {
    Item& head = stream.items.front();
    join(stream.clock, *head.host);
    if (head.kind == Item::Kind::wait) {
      join(stream.clock, head.point->clock);
    } else if (head.kind == Item::Kind::record) {
      head.point->clock = stream.clock;
      head.point->nanoseconds = nanoseconds_;
      head.point->done = true;
    } else {
      stream.clock.resize(std::max<std::size_t>(stream.clock.size(), stream.id + 1));
      stream.clock[stream.id] = ++stream.started;
      const OperationId operation =
          operation_order().add({stream.id, stream.started}, head.work.name);
      stream.running = head.work.start({operation, stream.clock});
    }
    if (!stream.running) {
      stream.items.pop_front();
      return true;
    }
  }
  try {
    nanoseconds_ += 1;
    if (!stream.running(kSlice)) {
      nanoseconds_ += kSlice;
      return false;
    }
  } catch (const std::exception& error) {
    fail(error);
  }
  stream.running = nullptr;
  stream.items.pop_front();
  return true;
}

bool Streams::step() {
  std::vector<Stream*> ready;
  for (Stream* stream : streams_)
    if (can_advance(*stream)) ready.push_back(stream);
  if (ready.empty()) return false;
  // The set is ordered by address; the order of creation makes a seed reproducible.
  std::sort(ready.begin(), ready.end(), [](Stream* a, Stream* b) { return a->id < b->id; });
  Stream& chosen = *ready[random_() % ready.size()];
  // A random number of steps of one stream.
  for (std::uint64_t left = random_() % 16; advance(chosen) && left > 0 && can_advance(chosen);)
    --left;
  return true;
}

void Streams::go_on() {
  enqueued_.notify_all();
  if (settings().seed == 0) {
    while (step()) {
    }
    return;
  }
  std::size_t pending = 0;
  for (const Stream* stream : streams_) pending += stream->items.size();
  if (pending > kMostPending || random_() % 8 == 0) step();
}

bool Streams::is_idle() const {
  return std::all_of(streams_.begin(), streams_.end(),
                     [&](const Stream* stream) { return is_idle(stream); });
}

void Streams::host_has_seen(const StreamClock& clock) {
  auto seen = std::make_shared<StreamClock>(*host_);
  join(*seen, clock);
  host_ = std::move(seen);
  pinned_accesses().end(*host_);
}

void Streams::host_has_seen_all() {
  for (const Stream* stream : streams_) host_has_seen(stream->clock);
}

cudaError_t Streams::take_fault() { return std::exchange(fault_, cudaSuccess); }

cudaError_t Streams::run_until(std::unique_lock<std::mutex>& lock,
                               const std::function<bool()>& done) {
  while (!done()) {
    if (step()) {
      lock.unlock();
      lock.lock();
    } else {  // another thread of the host enqueues or completes work first
      enqueued_.wait_for(lock, std::chrono::milliseconds(1));
    }
  }
  return take_fault();
}

int& current_device() {
  thread_local int device = 0;
  return device;
}

}  // namespace ringlet::emulated
