// Streams, events, graphs and times of any kind of device.
#include <chrono>
#include <utility>
#include <vector>

#include "ringlet/core/base/error.h"
#include "ringlet/core/device/backend.h"
#include "ringlet/core/device/device_time.h"
#include "ringlet/core/device/graph.h"
#include "ringlet/core/device/stream.h"

namespace ringlet {
namespace {

class HostTime final : public DeviceTime {
 public:
  double seconds_since(const DeviceTime& earlier) const override {
    return at_ - dynamic_cast<const HostTime&>(earlier).at_;
  }

 private:
  double at_ = steady_seconds();
};

}  // namespace

double steady_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

std::unique_ptr<DeviceTime> DeviceWork::device_time(Device) { return std::make_unique<HostTime>(); }

std::unique_ptr<DeviceTime> device_time(Device device) {
  return backend(device.type).device_time(device);
}
bool is_asynchronous(Device device) { return backend(device.type).is_asynchronous(); }
void hold(Device device, double seconds) { backend(device.type).hold(device, seconds); }
void synchronize(Device device) { backend(device.type).synchronize(device); }

namespace {

thread_local bool capturing_here = false;
thread_local std::vector<std::function<void()>> after_capture_here;
thread_local std::vector<std::shared_ptr<ReplayObserver>> observers_here;

class AfterCapture {
 public:
  AfterCapture() = default;
  ~AfterCapture() {
    observers_here.clear();
    for (const auto& call : std::exchange(after_capture_here, {})) call();
  }
  AfterCapture(const AfterCapture&) = delete;
  AfterCapture& operator=(const AfterCapture&) = delete;
};

class ObservedGraph final : public DeviceGraph {
 public:
  ObservedGraph(std::unique_ptr<DeviceGraph> graph,
                std::vector<std::shared_ptr<ReplayObserver>> observers)
      : observers_(std::move(observers)), graph_(std::move(graph)) {}
  void replay() override {
    check_not_capturing("a replay");
    try {
      for (const auto& observer : observers_) observer->begin_replay();
      for (const auto& observer : observers_) observer->meet();
      graph_->replay();
    } catch (const std::exception& error) {
      for (const auto& observer : observers_) observer->replay_failed(error);
      throw;
    }
    for (const auto& observer : observers_) observer->end_replay();
  }
  std::size_t nodes() const override { return graph_->nodes(); }

 private:
  std::vector<std::shared_ptr<ReplayObserver>> observers_;
  std::unique_ptr<DeviceGraph> graph_;
};

}  // namespace

std::string why_no_graphs(Device device) { return backend(device.type).why_no_graphs(device); }

std::unique_ptr<DeviceGraph> capture(Device device, const std::function<void()>& work) {
  check_not_capturing("a capture inside another");
  DeviceBackend& captured = backend(device.type);
  if (const std::string why = captured.why_no_graphs(device); !why.empty())
    fail("[graph] nothing of ", device, " can be captured: ", why);
  const AfterCapture then;
  captured.begin_capture(device);
  try {
    capturing_here = true;
    work();
    capturing_here = false;
  } catch (...) {
    capturing_here = false;
    captured.abandon_capture(device);
    throw;
  }
  auto graph = captured.end_capture(device);
  auto observers = std::exchange(observers_here, {});
  if (observers.empty()) return graph;
  return std::make_unique<ObservedGraph>(std::move(graph), std::move(observers));
}

void observe_replays(std::shared_ptr<ReplayObserver> observer) {
  RINGLET_CHECK(capturing_here, "[graph] replays are observed from within their capture");
  observers_here.push_back(std::move(observer));
}

bool is_capturing() { return capturing_here; }
void run_after_capture(std::function<void()> call) {
  after_capture_here.push_back(std::move(call));
}
void check_not_capturing(const char* what) {
  if (capturing_here) [[unlikely]]
    fail("[graph] ", what, " cannot be captured");
}
void check_not_capturing(const char* what, Device device) {
  check_not_capturing(what);
  if (device.type != DeviceType::cpu && backend(device.type).is_captured(device)) [[unlikely]]
    fail("[graph] ", what, " while another thread captures what ", device, " is given");
}

SideStream::SideStream(Device device, StreamPriority priority)
    : stream_(backend(device.type).make_stream(device, priority)) {}

StreamGuard::StreamGuard(const SideStream& stream)
    : stream_(stream.stream_.get()), before_(stream_ ? stream_->enter() : nullptr) {}
StreamGuard::~StreamGuard() {
  if (stream_) stream_->leave(before_);
}

StreamEvent::StreamEvent(Device device)
    : device_(device), event_(backend(device.type).make_event(device)) {}
void StreamEvent::record() const {
  if (event_) event_->record();
}
void StreamEvent::make_wait(Device device) const {
  if (event_) event_->make_wait(device);
}
bool StreamEvent::done() const { return !event_ || event_->done(); }

}  // namespace ringlet
