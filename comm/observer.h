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

/// A collective for the lifetime of this object. Null: not observed.
class ObservedCollective {
 public:
  ObservedCollective(CollectiveObserver* observer, const Collective& collective,
                     const Membership& rank)
      : observer_(observer) {
    if (observer_) observer_->begins(collective, rank);
  }
  ~ObservedCollective() {
    if (observer_) observer_->ends();
  }
  ObservedCollective(const ObservedCollective&) = delete;
  ObservedCollective& operator=(const ObservedCollective&) = delete;

 private:
  CollectiveObserver* observer_;
};

/// A step for the lifetime of this object.
class ObservedStep {
 public:
  ObservedStep(CollectiveObserver* observer, const Collective& collective, const Step& step,
               std::int64_t segment)
      : observer_(observer) {
    if (observer_) observer_->step_begins(collective, step, segment);
  }
  ~ObservedStep() {
    if (observer_) observer_->step_ends();
  }
  ObservedStep(const ObservedStep&) = delete;
  ObservedStep& operator=(const ObservedStep&) = delete;

 private:
  CollectiveObserver* observer_;
};

}  // namespace ringlet::comm
