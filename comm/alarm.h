// An alarm reports the end of one rank to all its peers. Every wait in comm checks it: once the
// alarm is raised, the wait throws its cause, on every rank that can run.
#pragma once

#include <memory>
#include <string>

namespace ringlet::comm {

class Alarm {
 public:
  virtual ~Alarm() = default;
  /// Ends the group with a cause ("rank 2 was killed"); the first one counts.
  virtual void raise(const std::string& cause) = 0;
  /// Cheap (one atomic load) while nothing is raised.
  virtual bool raised() const = 0;
  /// The first cause; empty while nothing is raised.
  virtual std::string cause() const = 0;
};

/// For ranks that are threads of this process or children that it forks later. Causes are cut at
/// 4,000 bytes.
std::shared_ptr<Alarm> make_alarm();

}  // namespace ringlet::comm
