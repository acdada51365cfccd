// Shared bytes on one device, with a version that every write increments.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "ringlet/core/device/memory.h"
#include "ringlet/core/tensor/storage_forms.h"

namespace ringlet {

class StreamEvent;

/// The version is that of StorageForms, which also holds other forms of the same bytes.
class Storage : public StorageForms {
 public:
  Storage(std::size_t nbytes, Device device);
  /// Bytes with another owner (a mapped file, a foreign tensor); the destructor calls `release`.
  Storage(std::byte* data, std::size_t nbytes, Device device, std::function<void()> release);
  /// Bytes of a CPU that may never be read: the first access allocates memory and calls `fill`.
  Storage(std::size_t nbytes, Device device, std::function<void(std::byte*)> fill);
  /// No bytes: an access throws an Error with the text `why`.
  Storage(std::size_t nbytes, Device device, std::string why);
  ~Storage();

  std::byte* data() const { return block().data; }
  std::size_t nbytes() const { return nbytes_; }
  Device device() const { return device_; }
  const MemoryBlock& block() const {
    if (unfilled_.load(std::memory_order_acquire)) [[unlikely]]
      fill();
    return block_;
  }

  /// Delays reuse of this memory until `until` completes, for a stream that is not ordered before
  /// the release. A later event of the same `user` replaces it.
  void use_until(std::uint64_t user, std::shared_ptr<const StreamEvent> until);

 private:
  struct Use {
    std::uint64_t user;
    std::shared_ptr<const StreamEvent> until;
  };
  void fill() const;
  void give_back();

  mutable MemoryBlock block_;
  std::size_t nbytes_;
  Device device_;
  std::function<void()> release_;
  mutable std::function<void(std::byte*)> fill_;
  std::string why_none_;  // empty: there are bytes
  mutable std::atomic<bool> unfilled_{false};
  mutable std::mutex fill_mutex_;
  std::mutex use_mutex_;
  std::vector<Use> uses_;
};

}  // namespace ringlet
