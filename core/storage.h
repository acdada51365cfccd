// Shared bytes on one device, with a version that every write moves on, and sidecars: other
// forms of the same bytes (a bf16 copy, a packed GEMM operand), rebuilt when the version moved.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "ringlet/core/backend.h"

namespace ringlet {

class Storage {
 public:
  Storage(std::size_t nbytes, Device device);
  /// Bytes that somebody else owns (a mapped file, a foreign tensor); `release` runs at the end.
  Storage(std::byte* data, std::size_t nbytes, Device device, std::function<void()> release);
  ~Storage();
  Storage(const Storage&) = delete;
  Storage& operator=(const Storage&) = delete;

  std::byte* data() const { return block_.data; }
  std::size_t nbytes() const { return nbytes_; }
  Device device() const { return device_; }
  const Block& block() const { return block_; }

  std::uint64_t version() const { return version_.load(std::memory_order_relaxed); }
  void bump_version() { version_.fetch_add(1, std::memory_order_relaxed); }

  /// The sidecar of the bytes at `offset` under `key`, made by `build` when there is none of the
  /// present version. `key` separates kinds (dtype, layout); one sidecar per offset and key.
  std::shared_ptr<void> sidecar(std::size_t offset, std::uint64_t key,
                                const std::function<std::shared_ptr<void>()>& build);

 private:
  struct Sidecar {
    std::size_t offset;
    std::uint64_t key;
    std::uint64_t version;
    std::shared_ptr<void> value;
  };
  Block block_;
  std::size_t nbytes_;
  Device device_;
  std::function<void()> release_;
  std::atomic<std::uint64_t> version_{0};
  std::mutex sidecar_mutex_;
  std::vector<Sidecar> sidecars_;
};

}  // namespace ringlet
