// PyTorch's store as a store of ringlet: ranks find each other by the store that PyTorch has.
#pragma once

#include <torch/csrc/distributed/c10d/Store.hpp>

#include <atomic>
#include <mutex>

#include "ringlet/comm/store.h"

namespace ringlet::pytorch {

using Timeout = comm::Timeout;

/// The alarm is a key, which raised() looks up four times a second at most. A store that does not
/// answer any more raises no alarm: the waits end at their timeout.
class Store final : public comm::Store {
 public:
  /// Uses a connection of its own: a rank may wait for a key in `store` meanwhile.
  explicit Store(const c10::intrusive_ptr<c10d::Store>& store);

  void set(const std::string& key, const std::string& value) override;
  std::string get(const std::string& key, Timeout timeout) override;
  std::int64_t add(const std::string& key, std::int64_t amount) override;
  void raise(const std::string& cause) override;
  bool raised() const override;
  std::string cause() const override;
  std::string host() const override { return host_; }

  /// Whether the key is set within `timeout`.
  bool wait(const std::string& key, Timeout timeout) const;

 private:
  c10::intrusive_ptr<c10d::Store> store_;
  std::string host_;
  mutable std::mutex mutex_;
  mutable std::string cause_;
  mutable std::atomic<bool> raised_{false};
  mutable std::atomic<std::int64_t> next_look_{0};  // nanoseconds of the steady clock
};

}  // namespace ringlet::pytorch
