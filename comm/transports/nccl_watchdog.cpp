#include "ringlet/comm/transports/nccl_watchdog.h"

#include <algorithm>
#include <exception>

#include "ringlet/core/base/error.h"
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

}  // namespace ringlet::comm
