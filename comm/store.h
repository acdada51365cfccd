// A store: the few strings that ranks exchange to find each other, and their alarm. Threads and
// forked processes use memory, and any ranks TCP.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

namespace ringlet::comm {

using Timeout = std::chrono::milliseconds;
/// For messages.
inline double seconds_of(Timeout timeout) { return std::chrono::duration<double>(timeout).count(); }

/// The alarm reports the end of one rank to all its peers. Every wait in comm checks it: once it is
/// raised, the wait throws its cause, on every rank that can run.
class Store {
 public:
  virtual ~Store() = default;
  virtual void set(const std::string& key, const std::string& value) = 0;
  /// Waits for the key. After `timeout` it throws an error that names the key.
  virtual std::string get(const std::string& key, Timeout timeout) = 0;
  /// Adds to a counter that starts at 0, atomically. Returns its new value.
  virtual std::int64_t add(const std::string& key, std::int64_t amount) = 0;

  /// Ends the group with a cause ("rank 2 was killed"); the first one counts.
  virtual void raise(const std::string& cause) = 0;
  /// Cheap (one atomic load) while nothing is raised.
  virtual bool raised() const = 0;
  /// The first cause; empty while nothing is raised.
  virtual std::string cause() const = 0;
  /// The address of the store's host: the ranks reach each other by the route to it.
  virtual std::string host() const { return "127.0.0.1"; }
};

/// Shared memory, of the threads of this process and of children that it forks later. Causes are
/// cut at 4,000 bytes.
std::shared_ptr<Store> make_memory_store();

}  // namespace ringlet::comm
