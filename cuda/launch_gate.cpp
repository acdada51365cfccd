#include "ringlet/cuda/launch_gate.h"

#include <algorithm>
#include <exception>

#include "ringlet/core/base/error.h"

namespace ringlet::cuda {
namespace {

thread_local int launches_here = 0, calls_here = 0;  // scopes of this thread

}  // namespace

// Never destroyed: memory may be freed until the process ends.
LaunchGate& LaunchGate::instance() {
  static auto* const gate = new LaunchGate;
  return *gate;
}

LaunchGate::Clock::time_point LaunchGate::deadline() const {
  Clock::time_point last = Clock::time_point::min();
  for (const LaunchRound* round : open_) last = std::max(last, round->deadline_);
  return last;
}

LaunchGate::Call::Call() {
  LaunchGate& gate = instance();
  std::unique_lock lock(gate.mutex_);
  const bool waits = calls_here++ == 0 && launches_here == 0 && std::uncaught_exceptions() == 0;
  while (waits && Clock::now() < gate.deadline()) gate.changed_.wait_until(lock, gate.deadline());
  ++gate.calls_;
}

LaunchGate::Call::~Call() {
  --calls_here;
  LaunchGate& gate = instance();
  const std::lock_guard lock(gate.mutex_);
  if (--gate.calls_ == 0) gate.changed_.notify_all();
}

// If one of these rounds is open, another one may miss this very launch.
void LaunchGate::open(Rounds rounds, std::unique_lock<std::mutex>& lock) {
  const auto is_open = [](const auto& round) { return round->left_ > 0; };
  const auto is_abandoned = [](const auto& round) { return round->abandoned_; };
  if (std::ranges::all_of(rounds, is_abandoned)) return;
  while (std::ranges::none_of(rounds, is_open) && Clock::now() < deadline())
    changed_.wait_until(lock, deadline());
  Clock::time_point until = Clock::now();
  double seconds = 0;
  for (const auto& round : rounds) {
    if (!is_open(round) && !round->abandoned_) {
      round->left_ = round->launches_;
      round->ready_ = false;
      round->deadline_ =
          Clock::now() + std::chrono::duration_cast<Clock::duration>(
                             std::chrono::duration<double>(std::min(round->seconds_, 1e6)));
      open_.insert(round.get());
    }
    until = std::max(until, round->deadline_);
    seconds = std::max(seconds, round->seconds_);
  }
  const auto is_ready = [&](const auto& round) { return round->ready_ || !is_open(round); };
  const auto may_launch = [&] { return calls_ == 0 || std::ranges::all_of(rounds, is_ready); };
  if (!changed_.wait_until(lock, until, may_launch)) {
    for (const auto& round : rounds) close(*round);
    fail("[all_reduce] a launch on several GPUs waited ", seconds,
         " s for a call of the driver by another thread");
  }
  for (const auto& round : rounds) round->ready_ = true;
}

void LaunchGate::close(LaunchRound& round) {
  round.left_ = 0;
  open_.erase(&round);
  changed_.notify_all();
}

LaunchGate::Launch::Launch(Rounds rounds) : rounds_(rounds) {
  LaunchGate& gate = instance();
  std::unique_lock lock(gate.mutex_);
  gate.open(rounds, lock);
  ++launches_here;
}

LaunchGate::Launch::~Launch() {
  --launches_here;
  LaunchGate& gate = instance();
  const std::lock_guard lock(gate.mutex_);
  for (const auto& round : rounds_)
    if (round->left_ > 0 && --round->left_ == 0) gate.close(*round);
}

void LaunchRound::abandon() noexcept {
  LaunchGate& gate = LaunchGate::instance();
  const std::lock_guard lock(gate.mutex_);
  abandoned_ = true;
  gate.close(*this);
}

bool may_call_driver() { return calls_here > 0 && launches_here == 0; }

}  // namespace ringlet::cuda
