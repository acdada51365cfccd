#include "ringlet/train/report/timeline.h"

#include <map>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include "ringlet/comm/call.h"
#include "ringlet/comm/engine.h"
#include "ringlet/comm/membership.h"
#include "ringlet/comm/observer.h"
#include "ringlet/core/base/error.h"
#include "ringlet/core/device/device_time.h"
#include "ringlet/core/device/kernel.h"
#include "ringlet/core/device/observers.h"

namespace ringlet::train {

/// The points of a rank's spans; they are read in spans(), which waits for the device.
class Timeline::Recording {
 public:
  struct Open {
    std::shared_ptr<Recording> owner;  // null: of no rank
    std::string track, kind, name;
    Device device;
    int depth = 0;
    std::unique_ptr<DeviceTime> begin = {};
  };

  explicit Recording(Device device_) : device(device_) { origin(device); }

  void add(Open open) {
    auto end = device_time(open.device);
    const std::lock_guard lock(mutex_);
    closed_.push_back({std::move(open), std::move(end)});
    closed_.back().first.owner = nullptr;  // no cycle
  }
  double seconds(Device of, const DeviceTime& point) {
    const Origin& from = origin(of);
    return from.offset + point.seconds_since(*from.point);
  }
  std::vector<Span> spans() {
    const std::lock_guard lock(mutex_);
    std::vector<Span> all;
    for (const auto& [open, end] : closed_)
      all.push_back({open.track, open.kind, open.name, seconds(open.device, *open.begin),
                     seconds(open.device, *end), open.depth});
    return all;
  }

  /// Groups, and messages of each peer, run on threads of their own, at the same time.
  std::string track_of_collectives() {
    const std::lock_guard lock(mutex_);
    const std::size_t next = threads_.size() + 1;
    const std::size_t thread = threads_.try_emplace(std::this_thread::get_id(), next).first->second;
    return thread == 1 ? "collectives" : str("collectives ", thread);
  }

  const Device device;

 private:
  struct Origin {
    std::unique_ptr<DeviceTime> point;
    double offset = 0;  // seconds, by the host's clock
  };

  // Clocks of devices are compared with the host's, at a moment when the device is idle.
  const Origin& origin(Device of) {
    if (of.type == DeviceType::cpu) of = Device{};
    const std::lock_guard lock(origins_mutex_);
    Origin& found = origins_[of];
    if (found.point) return found;
    synchronize(of);
    found.point = device_time(of);
    found.offset = device_time(Device{})->seconds_since(*start_);
    return found;
  }

  const std::unique_ptr<DeviceTime> start_ = device_time(Device{});
  std::mutex mutex_, origins_mutex_;
  std::map<Device, Origin> origins_;
  std::map<std::thread::id, std::size_t> threads_;  // of collectives, counted from 1
  std::vector<std::pair<Open, std::unique_ptr<DeviceTime>>> closed_;
};

namespace {
thread_local std::optional<int> rank_here;  // of the thread that trains it
}

/// One for the process, since calls that it saw begin may end later than a timeline.
struct Timeline::Observer final : KernelObserver, WaitObserver, comm::CollectiveObserver {
  using Open = Recording::Open;

  static Observer& get() {
    static Observer* const observer = new Observer;
    return *observer;
  }
  // This thread's, outermost first.
  static std::vector<Open>& open() {
    thread_local std::vector<Open> spans;
    return spans;
  }

  void add(int rank, std::shared_ptr<Recording> recording) {
    const std::lock_guard lock(mutex_);
    RINGLET_CHECK(ranks_.emplace(rank, std::move(recording)).second, "[timeline] rank ", rank,
                  " has one already");
    rank_here = rank;
    kernel_observer = this;
    wait_observer = this;
  }
  void remove(const Recording* recording) {
    const std::lock_guard lock(mutex_);
    std::erase_if(ranks_, [&](const auto& rank) { return rank.second.get() == recording; });
    rank_here.reset();
    if (!ranks_.empty()) return;
    kernel_observer = nullptr;
    wait_observer = nullptr;
  }

  /// Null: none.
  std::shared_ptr<Recording> of_this_thread() { return rank_here ? of(*rank_here) : nullptr; }

  void before(const char* name, const void*, Device device) override {
    begin(mine(), rank_here ? "compute" : str(device), "kernel", name, device);
  }
  void after(const char*, const void*, Device) override { end(); }
  void wait_begins(const char* what) override {
    const auto owner = mine();
    const bool data = what == std::string("data");
    begin(owner, data ? "data" : "compute", "wait", what, owner ? owner->device : Device{});
  }
  void wait_ends(const char*) override { end(); }
  void begins(const comm::Collective& collective, const comm::Membership& rank) override {
    const auto owner = of(rank.me());
    begin(owner, owner ? owner->track_of_collectives() : "", "collective",
          comm::describe(collective.call), collective.end->device());
  }
  void ends() override { end(); }
  void step_begins(const comm::Collective& collective, const comm::Step& step,
                   std::int64_t segment) override {
    std::string name = str("step ", &step - collective.schedule.data());
    if (collective.segments > 1) name += str(", segment ", segment);
    begin(open().back().owner, "", "step", std::move(name), collective.end->device());
  }
  void step_ends() override { end(); }

 private:
  std::shared_ptr<Recording> of(int rank) {
    const std::lock_guard lock(mutex_);
    const auto found = ranks_.find(rank);
    return found == ranks_.end() ? nullptr : found->second;
  }
  // The rank of this thread's open span, or of the thread.
  std::shared_ptr<Recording> mine() {
    if (!open().empty()) return open().back().owner;
    if (rank_here) return of_this_thread();
    const std::lock_guard lock(mutex_);
    return ranks_.size() == 1 ? ranks_.begin()->second : nullptr;
  }
  // A span within another is on its track, but for a collective that a waiting caller runs.
  static void begin(std::shared_ptr<Recording> owner, std::string track, const char* kind,
                    std::string name, Device device) {
    int depth = 0;
    if (!open().empty() && kind != std::string("collective"))
      depth = open().back().depth + 1, track = open().back().track;
    Open span{std::move(owner), std::move(track), kind, std::move(name), device, depth};
    if (span.owner) span.begin = device_time(device);
    open().push_back(std::move(span));
  }
  static void end() {
    Open span = std::move(open().back());
    open().pop_back();
    if (const auto owner = span.owner) owner->add(std::move(span));
  }

  std::mutex mutex_;
  std::map<int, std::shared_ptr<Recording>> ranks_;
};

Timeline::Timeline(Device device, int rank) : recording_(std::make_shared<Recording>(device)) {
  Observer::get().add(rank, recording_);
}
Timeline::~Timeline() { Observer::get().remove(recording_.get()); }

comm::CollectiveObserver& Timeline::of_collectives() { return Observer::get(); }

std::vector<Span> Timeline::spans() const { return recording_->spans(); }

TimelinePhase::TimelinePhase(std::string name)
    : name_(std::move(name)), recording_(Timeline::Observer::get().of_this_thread()) {
  if (recording_) begin_ = device_time(recording_->device);
}
TimelinePhase::~TimelinePhase() {
  if (recording_)
    recording_->add(
        {nullptr, "steps", "phase", std::move(name_), recording_->device, 0, std::move(begin_)});
}

}  // namespace ringlet::train
