#include "ringlet/comm/transports/nccl_rank.h"

#include <algorithm>
#include <exception>
#include <sstream>

#include "ringlet/comm/host.h"
#include "ringlet/core/base/error.h"
#include "ringlet/core/device/backend.h"
#include "ringlet/core/device/graph.h"
#include "ringlet/core/threads/thread.h"

namespace ringlet::comm {

NcclWatchdog::NcclWatchdog(const Membership& membership, NcclCommunicator& communicator)
    : membership_(membership),
      communicator_(communicator),
      replays_(membership_, "replays"),
      exchange_at_(Clock::now() + replays_.interval()),
      thread_(start_thread([this] { run(); })) {}

NcclWatchdog::~NcclWatchdog() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  thread_.join();
  record_left();
}

void NcclWatchdog::watch(const Call& call, std::shared_ptr<const StreamEvent> begun,
                         std::shared_ptr<const StreamEvent> ended, int replayed) {
  const std::lock_guard lock(mutex_);
  if (replayed > 0) replays_.enter({++replayed_, 0});
  last_ = {call, nullptr, nullptr, replayed > 0 ? replayed_ : 0, replayed};
  watched_.push_back({call, std::move(begun), std::move(ended), last_.replay, replayed});
}

void NcclWatchdog::run() {
  std::unique_lock lock(mutex_);
  while (!stop_ || !watched_.empty()) {
    const auto pause = std::chrono::milliseconds(stop_ ? 1 : 20);
    changed_.wait_for(lock, pause, [this, stopped = stop_] { return stop_ != stopped; });
    lock.unlock();
    try {
      look();
    } catch (const std::exception& error) {
      // If the alarm is not raised yet, the device itself has failed.
      membership_.store->raise(of_rank(membership_.me(), error.what()));
    }
    if (membership_.store->raised()) return communicator_.abort();
    lock.lock();
  }
}

void NcclWatchdog::look() {
  if (membership_.store->raised()) return;
  const std::optional<Watched> first = oldest();
  if (const std::string error = communicator_.async_error(); !error.empty())
    end_by_nccl(membership_, describe(first ? *first : last_given()), error);
  exchange_progress(first ? &*first : nullptr);
  if (!first || !first->since || Clock::now() - *first->since <= membership_.timeout) return;
  membership_.end(str(describe(*first), ": ", membership_.waited(), " for ", first->ended->device(),
                      " to end it", presence(*first)));
}

std::string NcclWatchdog::describe(const Watched& watched) {
  const std::string call = describe_collective(watched.call);
  if (watched.replay == 0) return call;
  const std::string more = watched.count > 1 ? str(" and ", watched.count - 1, " more") : "";
  return str("[graph] replay ", watched.replay, ", of ", call, more);
}

std::string NcclWatchdog::presence(const Watched& watched) const {
  std::vector<Progress> progress;  // before a collective, the ranks have met
  if (watched.replay > 0) progress = replays_.of_all();
  const bool all_came = std::all_of(progress.begin(), progress.end(), [&](const Progress& rank) {
    return rank.sequence >= watched.replay;
  });
  return all_came ? "; all ranks came"
                  : comm::presence(watched.replay, progress, membership_.names);
}

void NcclWatchdog::exchange_progress(const Watched* oldest) noexcept {
  if (Clock::now() < exchange_at_) return;
  exchange_at_ = Clock::now() + replays_.interval();
  try {
    replays_.publish();
    if (oldest && oldest->replay > 0) check_departures(*oldest);
  } catch (const std::exception&) {
    // The store is gone: the alarm says so.
  }
}

// Before a collective that is no replay, the host's transport reports departures.
void NcclWatchdog::check_departures(const Watched& watched) const {
  if (membership_.store->add(membership_.key("departures"), 0) == 0) return;
  const std::vector<Progress> progress = replays_.of_all();
  for (int rank = 0; rank < membership_.size; ++rank) {
    const Progress& theirs = progress[static_cast<std::size_t>(rank)];
    if (theirs.step == Progress::kFinished && theirs.sequence < watched.replay)
      membership_.end_late(
          describe_left(describe(watched), membership_.me(), membership_.name_of(rank)));
  }
}

// With its last replay: peers may still wait for their own devices to end that one.
void NcclWatchdog::record_left() noexcept {
  if (membership_.store->raised()) return;
  try {
    replays_.enter({replayed_, Progress::kFinished});
    replays_.publish();
    membership_.store->add(membership_.key("departures"), 1);
  } catch (const std::exception&) {
    // The store is gone: the alarm says so.
  }
}

NcclWatchdog::Watched NcclWatchdog::last_given() {
  const std::lock_guard lock(mutex_);
  return last_;
}

// Events are queried without the lock, which the thread that enqueues work takes as well.
std::optional<NcclWatchdog::Watched> NcclWatchdog::oldest() {
  while (true) {
    Watched first;
    {
      const std::lock_guard lock(mutex_);
      if (watched_.empty()) return {};
      first = watched_.front();
    }
    if (!first.ended->done()) {
      if (!first.since && first.begun->done()) first.since = Clock::now();
      const std::lock_guard lock(mutex_);
      watched_.front().since = first.since;
      return first;
    }
    const std::lock_guard lock(mutex_);
    watched_.pop_front();
  }
}

namespace {

// A field a line: no host's name has a line's end.
std::string to_text(const GpuPlace& place) {
  return str(place.bus_id, '\n', place.device, '\n', place.host, '\n', place.host_id, '\n');
}
GpuPlace gpu_place_of(const std::string& text) {
  std::istringstream lines(text);
  GpuPlace place;
  for (std::string* field : {&place.bus_id, &place.device, &place.host, &place.host_id})
    std::getline(lines, *field);
  return place;
}

bool may_share() { return environment_variable("NCCL_MULTI_RANK_GPU_ENABLE").value_or("0") != "0"; }

}  // namespace

// Containers of one host have names of their own, by which NCCL takes them for several.
GpuPlace gpu_place(Device device) {
  const std::string host = host_name();
  return {may_share() ? "" : backend(device.type).bus_id(device), str(device), host,
          environment_variable("NCCL_HOSTID").value_or(host + ' ' + boot_id())};
}

std::string shared_gpu(const std::vector<GpuPlace>& ranks, const std::vector<int>& names) {
  const auto name = [&](std::size_t rank) {
    return names.empty() ? static_cast<int>(rank) : names[rank];
  };
  for (std::size_t second = 1; second < ranks.size(); ++second)
    for (std::size_t first = 0; first < second; ++first) {
      const GpuPlace &a = ranks[first], &b = ranks[second];
      if (a.bus_id.empty() || a.bus_id != b.bus_id || a.host_id != b.host_id) continue;
      return str("rank ", name(first), " (on its ", a.device, ") and rank ", name(second),
                 " (on its ", b.device, ") share the GPU ", a.bus_id, " of ", b.host,
                 ", and nccl takes one rank of each: expected at most as many ranks on a host as "
                 "it has GPUs, and a CUDA_VISIBLE_DEVICES that shows no GPU to two of them");
    }
  return "";
}

void check_gpus(const Membership& membership, const GpuPlace& mine) {
  std::vector<GpuPlace> ranks;
  for (const std::string& theirs : membership.gather("the GPU of ", to_text(mine)))
    ranks.push_back(gpu_place_of(theirs));
  if (const std::string shared = shared_gpu(ranks, membership.names); !shared.empty())
    fail_input("[group] ", membership.id, ": ", shared);
}

/// The collectives that were captured in one graph, as its replays are watched. Goes, with its
/// graph, before the group.
class NcclReplays final : public ReplayObserver {
 public:
  NcclReplays(NcclWatchdog& watchdog, Device device, const Call& first)
      : watchdog_(watchdog), device_(device), first_(first) {}
  void add_one() { ++count_; }

  void begin_replay() override {
    begun_ = std::make_shared<StreamEvent>(device_);
    begun_->record();
  }
  void end_replay() override {
    const auto ended = std::make_shared<StreamEvent>(device_);
    ended->record();
    watchdog_.watch(first_, std::move(begun_), ended, count_);
  }

 private:
  NcclWatchdog& watchdog_;
  Device device_;
  Call first_;
  int count_ = 0;
  std::shared_ptr<const StreamEvent> begun_;
};

NcclRank::NcclRank(const Membership& membership, Transport& host)
    : membership_(membership), host_(make_schedule_engine(host, membership.rank, membership.size)) {
  barrier_.schedule =
      make_schedule(Op::barrier, Algorithm::direct, membership.rank, membership.size);
  barrier_.pieces = Pieces(1);
  barrier_.buffer = empty({0}, DType::u8, Device{});
}

void NcclRank::enter(const Call& call, Device device) {
  call_ = call;
  RINGLET_CHECK(!communicator_ || device == device_, "[", name(call.op), "] of a tensor on ",
                device, " in a group whose tensors are on ", device_);
  barrier();
  if (!communicator_) {
    check_gpus(membership_, gpu_place(device));
    device_ = device;
    communicator_.emplace(membership_, device);
    barrier();  // NCCL's kernels must not wait on a GPU where another rank still makes its part
    watchdog_.emplace(membership_, *communicator_);
  }
  begun_ =
      backend(device.type).is_captured(device) ? nullptr : std::make_shared<StreamEvent>(device);
  if (!begun_) return note_captured();
  begun_->record();
}

// It runs later, any number of times, each of which is watched.
void NcclRank::note_captured() {
  if (!captured_) {
    captured_ = std::make_shared<NcclReplays>(*watchdog_, device_, call_);
    observe_replays(captured_);
    run_after_capture([this] { captured_.reset(); });
  }
  captured_->add_one();
}

// Empty messages carry the call, and a rank hears from its neighbour: where neighbours agree, all
// do.
void NcclRank::barrier() {
  barrier_.call = call_;
  host_->execute(barrier_);
}

void NcclRank::group(const NcclCommunicator::Calls& calls) {
  communicator_->group(describe_collective(call_), calls);
}

void NcclRank::leave() {
  if (!begun_) return;
  const auto ended = std::make_shared<StreamEvent>(device_);
  ended->record();
  watchdog_->watch(call_, std::move(begun_), ended);
}

}  // namespace ringlet::comm
