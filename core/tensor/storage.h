// Shared bytes on one device, with a version that every write increments. Sidecars are other forms
// of the same bytes (a packed GEMM operand); they are released when the version changes. A mirror
// is another form of all the bytes, which a writer may update together with them.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "ringlet/core/base/dtype.h"
#include "ringlet/core/device/memory.h"

namespace ringlet {

class StreamEvent;

/// Identifies a sidecar: the result of `make` for a matrix in memory.
struct SidecarForm {
  void (*make)(const void* context, void* to);
  std::int64_t rows;
  std::int64_t columns;
  DType dtype;
  bool transposed;
  /// On a device: the order of work that makes the sidecar; only work in this order may read it.
  std::uint64_t order = 0;

  friend bool operator==(const SidecarForm&, const SidecarForm&) = default;
};

class Storage {
 public:
  Storage(std::size_t nbytes, Device device);
  /// Bytes with another owner (a mapped file, a foreign tensor); the destructor calls `release`.
  Storage(std::byte* data, std::size_t nbytes, Device device, std::function<void()> release);
  /// Bytes of a CPU that may never be read: the first access allocates memory and calls `fill`.
  Storage(std::size_t nbytes, Device device, std::function<void(std::byte*)> fill);
  /// No bytes: an access throws an Error with the text `why`.
  Storage(std::size_t nbytes, Device device, std::string why);
  ~Storage();
  Storage(const Storage&) = delete;
  Storage& operator=(const Storage&) = delete;

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

  std::uint64_t version() const { return version_.load(std::memory_order_relaxed); }
  /// Called before bytes are written. Drops the sidecars; products in flight keep theirs.
  void bump_version() {
    version_.fetch_add(1, std::memory_order_relaxed);
    if (has_sidecars_.load(std::memory_order_relaxed)) [[unlikely]]
      drop_sidecars();
  }
  /// Called when other code may write from now on without a new version: there are no sidecars.
  void share_outside();
  bool is_shared_outside() const { return shared_outside_; }

  /// The bytes at `offset` in another form, made by `build`. Null at the first request for a
  /// version, as most forms are used once, unless `at_once`; null also if shared outside.
  std::shared_ptr<Storage> sidecar(std::size_t offset, const SidecarForm& form,
                                   const std::function<std::shared_ptr<Storage>()>& build,
                                   bool at_once = false);
  /// Releases the sidecars, as a write does.
  void drop_sidecars();

  // ---- a mirror: f32 numbers rounded to bf16, at the same indices ----

  /// Requests a mirror, for work that would otherwise round the numbers itself.
  void want_mirror() { wants_mirror_.store(true, std::memory_order_relaxed); }
  bool wants_mirror() const { return wants_mirror_.load(std::memory_order_relaxed); }
  /// Sets `mirror`, or null for none, as that of the current version for work on `stream`
  /// (DeviceBackend::stream). The next version has none, but the memory is kept.
  void set_mirror(std::shared_ptr<Storage> mirror, const void* stream = nullptr);
  /// The mirror of the current version, for work on `stream`; else null.
  std::shared_ptr<Storage> mirror(const void* stream);

 private:
  struct Sidecar {
    std::size_t offset;
    SidecarForm form;
    std::uint64_t version;
    std::shared_ptr<Storage> value;  // null: requested once
  };
  struct Use {
    std::uint64_t user;
    std::shared_ptr<const StreamEvent> until;
  };
  struct Mirror {
    std::shared_ptr<Storage> value;
    const void* stream = nullptr;
    std::uint64_t version = 0;
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
  std::atomic<std::uint64_t> version_{0};
  std::atomic<bool> shared_outside_{false};
  std::atomic<bool> has_sidecars_{false};
  std::mutex sidecar_mutex_;
  std::vector<Sidecar> sidecars_;
  std::atomic<bool> wants_mirror_{false};
  Mirror mirror_;  // under sidecar_mutex_
  std::mutex use_mutex_;
  std::vector<Use> uses_;
};

}  // namespace ringlet
