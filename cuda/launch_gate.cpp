#include "ringlet/cuda/launch_gate.h"

#include <algorithm>
#include <exception>
#include <utility>

#include "ringlet/core/base/error.h"

namespace ringlet::cuda {
namespace {

thread_local int launches_here = 0;  // scopes of this thread

}  // namespace

// Never destroyed: memory may be freed until the process ends.
LaunchGate& LaunchGate::instance() {
  static auto* const gate = new LaunchGate;
  return *gate;
}

LaunchGate::Clock::time_point LaunchGate::deadline() const {
  Clock::time_point last = Clock::time_point::min();
  for (const auto& [owner, deadline] : rounds_) last = std::max(last, deadline);
  return last;
}

void LaunchGate::wait_for_rounds(std::unique_lock<std::mutex>& lock) {
  while (Clock::now() < deadline()) changed_.wait_until(lock, deadline());
}

LaunchGate::Call::Call() {
  LaunchGate& gate = instance();
  std::unique_lock lock(gate.mutex_);
  if (launches_here == 0 && std::uncaught_exceptions() == 0) gate.wait_for_rounds(lock);
  ++gate.calls_;
}

LaunchGate::Call::~Call() {
  LaunchGate& gate = instance();
  const std::lock_guard lock(gate.mutex_);
  if (--gate.calls_ == 0) gate.changed_.notify_all();
}

// A graph may have launches of several groups. Its thread then opens rounds within a round, and
// must not wait for that one to end.
void LaunchGate::open_round(const void* owner, double seconds) {
  std::unique_lock lock(mutex_);
  if (launches_here == 0) wait_for_rounds(lock);
  const auto until = Clock::now() + std::chrono::duration_cast<Clock::duration>(
                                        std::chrono::duration<double>(std::min(seconds, 1e6)));
  rounds_[owner] = until;
  if (changed_.wait_until(lock, until, [&] { return calls_ == 0; })) return;
  rounds_.erase(owner);
  changed_.notify_all();
  fail("[all_reduce] a launch on several GPUs waited ", seconds,
       " s for a call of the driver by another thread");
}

void LaunchGate::end_round(const void* owner) noexcept {
  const std::lock_guard lock(mutex_);
  rounds_.erase(owner);
  changed_.notify_all();
}

// The ranks that come while the first one opens the round wait for it here, too.
LaunchRound::Launch::Launch(LaunchRound& round) : round_(round) {
  const std::lock_guard lock(round.mutex_);
  if (!round.abandoned_ && round.left_ == 0) {
    LaunchGate::instance().open_round(&round, round.seconds_);
    round.left_ = round.launches_;
  }
  ++launches_here;
}

LaunchRound::Launch::~Launch() {
  --launches_here;
  const std::lock_guard lock(round_.mutex_);
  if (round_.left_ > 0 && --round_.left_ == 0) LaunchGate::instance().end_round(&round_);
}

void LaunchRound::abandon() noexcept {
  const std::lock_guard lock(mutex_);
  abandoned_ = true;
  if (std::exchange(left_, 0) > 0) LaunchGate::instance().end_round(this);
}

}  // namespace ringlet::cuda
