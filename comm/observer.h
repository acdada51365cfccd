// Observation of a group's collectives and of their steps, for traces and timelines.
#pragma once

#include <cstdint>

namespace ringlet::comm {

struct Collective;
struct Membership;
struct Step;

/// Receives the collectives of all ranks that have it in their GroupOptions, each on the thread
/// that runs it and with its stream current. Ranks may be threads. It must outlive their groups.
class CollectiveObserver {
 public:
  virtual ~CollectiveObserver() = default;
  virtual void begins(const Collective& collective, const Membership& rank) = 0;
  virtual void ends() {}
  /// Within a collective: a step of its schedule, for one of its segments. Other engines have none.
  virtual void step_begins(const Collective&, const Step&, std::int64_t /*segment*/) {}
  virtual void step_ends() {}
};

/// Ends what an observer, unless null, has begun.
class ObservedUntil {
 public:
  ObservedUntil(CollectiveObserver* observer, void (CollectiveObserver::*end)())
      : observer_(observer), end_(end) {}
  ~ObservedUntil() {
    if (observer_) (observer_->*end_)();
  }
  ObservedUntil(const ObservedUntil&) = delete;
  ObservedUntil& operator=(const ObservedUntil&) = delete;

 private:
  CollectiveObserver* observer_;
  void (CollectiveObserver::*end_)();
};

}  // namespace ringlet::comm
