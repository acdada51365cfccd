#include "ringlet/comm/transports/nccl_watchdog.h"

#include "ringlet/core/error.h"
#include "ringlet/core/thread.h"

namespace ringlet::comm {

NcclWatchdog::NcclWatchdog(const Membership& membership, NcclCommunicator& communicator)
    : membership_(membership),
      communicator_(communicator),
      thread_(start_thread([this] { run(); })) {}

NcclWatchdog::~NcclWatchdog() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void NcclWatchdog::watch(const Call& call, std::shared_ptr<const Event> begun,
                         std::shared_ptr<const Event> ended) {
  const std::lock_guard lock(mutex_);
  last_ = call;
  watched_.push_back({call, std::move(begun), std::move(ended)});
}

void NcclWatchdog::run() {
  std::unique_lock lock(mutex_);
  while (!stop_ || !watched_.empty()) {
    const auto pause = std::chrono::milliseconds(stop_ ? 1 : 20);
    changed_.wait_for(lock, pause, [this, stopped = stop_] { return stop_ != stopped; });
    lock.unlock();
    try {
      look();
    } catch (const std::exception& error) {  // the device itself has failed
      membership_.alarm->raise(str("rank ", membership_.rank, ": ", error.what()));
    }
    if (membership_.alarm->raised()) return communicator_.abort();
    lock.lock();
  }
}

void NcclWatchdog::look() {
  if (membership_.alarm->raised()) return;
  const std::optional<Watched> first = oldest();
  if (const std::string error = communicator_.async_error(); !error.empty())
    return end_by_nccl(membership_, describe_collective(first ? first->call : last_), error);
  if (!first || !first->since || Clock::now() - *first->since <= membership_.timeout) return;
  membership_.alarm->raise(str(describe_collective(first->call), ": ", waited(membership_), " for ",
                               first->ended->device(), " to end it; all ranks came"));
}

// Events are asked without the lock: on the way of who gives the device its work.
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
