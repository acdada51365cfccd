// Helpers shared by the runtime's functions.
#pragma once

#include "streams.h"

namespace ringlet::emulated {

/// Holds the runtime's lock for one call.
class Call {
 public:
  Call() : lock_(Streams::instance().mutex()) {}
  Streams& streams() const { return Streams::instance(); }
  std::unique_lock<std::mutex>& lock() { return lock_; }

 private:
  std::unique_lock<std::mutex> lock_;
};

/// An event: its most recent recording.
struct Event {
  std::shared_ptr<Point> point;
  bool timed = false;
};

/// A captured graph: the operations of each stream.
struct CapturedLanes {
  std::vector<Capture::Entry> entries;
  std::size_t lanes = 0;
  std::size_t works = 0;
};

/// An instantiated graph with its private streams.
struct Executable {
  CapturedLanes graph;
  std::vector<Stream*> streams;
};

inline Event* event_of(cudaEvent_t event) { return reinterpret_cast<Event*>(event); }

/// Work that completes in one step.
Work at_once(const std::string& name, std::function<void(const LaunchOrder&)> work,
             const PinnedBytes& pinned = {});

}  // namespace ringlet::emulated
