// A store: the few strings that ranks exchange to find each other. Threads use memory, processes of
// one host a folder, and any ranks TCP.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

namespace ringlet::comm {

using Timeout = std::chrono::milliseconds;

class Store {
 public:
  virtual ~Store() = default;
  virtual void set(const std::string& key, const std::string& value) = 0;
  /// Waits for the key. After `timeout` it throws an error that names the key.
  virtual std::string get(const std::string& key, Timeout timeout) = 0;
  /// Adds to a counter that starts at 0, atomically. Returns its new value.
  virtual std::int64_t add(const std::string& key, std::int64_t amount) = 0;
};

std::shared_ptr<Store> make_memory_store();

/// Shared memory: the parent makes it and shares it with all its children.
std::shared_ptr<Store> make_forked_store();

/// A folder, of one host or of hosts that share a file system; created if it is missing. Each job
/// needs a separate, empty one: keys of an earlier job would be taken for those of this one.
std::shared_ptr<Store> make_file_store(const std::string& folder);

}  // namespace ringlet::comm
