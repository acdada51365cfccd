// The version of a storage's bytes, and other forms of the same bytes: sidecars and a mirror.
#pragma once

#include <atomic>
#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "ringlet/core/base/dtype.h"

namespace ringlet {

class Storage;

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

/// A version that every write increments, and the other forms of its bytes. Sidecars are forms of
/// some of them (a packed GEMM operand); they are released when the version changes. A mirror is a
/// form of all of them, which a writer may update together with them.
class StorageForms {
 public:
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

 protected:
  StorageForms() = default;
  ~StorageForms();
  StorageForms(const StorageForms&) = delete;
  StorageForms& operator=(const StorageForms&) = delete;

 private:
  struct Sidecar {
    std::size_t offset;
    SidecarForm form;
    std::uint64_t version;
    std::shared_ptr<Storage> value;  // null: requested once
  };
  struct Mirror {
    std::shared_ptr<Storage> value;
    const void* stream = nullptr;
    std::uint64_t version = 0;
  };

  std::atomic<std::uint64_t> version_{0};
  std::atomic<bool> shared_outside_{false};
  std::atomic<bool> has_sidecars_{false};
  std::mutex sidecar_mutex_;
  std::vector<Sidecar> sidecars_;
  std::atomic<bool> wants_mirror_{false};
  Mirror mirror_;  // under sidecar_mutex_
};

}  // namespace ringlet
