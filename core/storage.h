// Shared bytes on one device, with a version that every write moves on, and sidecars: other forms
// of the same bytes (a packed GEMM operand), which go when the version moves; and a mirror, another
// form of all of them that who writes them may bring along.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "ringlet/core/backend.h"
#include "ringlet/core/dtype.h"

namespace ringlet {

/// What a sidecar is: the work of `make` on a matrix as it lies in memory.
struct SidecarForm {
  void (*make)(const void* context, void* to);
  std::int64_t rows;
  std::int64_t columns;
  DType dtype;
  bool transposed;
  /// Of a device: the order of work in which it is made, and in which alone it may be read.
  std::uint64_t order = 0;

  friend bool operator==(const SidecarForm&, const SidecarForm&) = default;
};

class Storage {
 public:
  Storage(std::size_t nbytes, Device device);
  /// Bytes that somebody else owns (a mapped file, a foreign tensor); `release` runs at the end.
  Storage(std::byte* data, std::size_t nbytes, Device device, std::function<void()> release);
  /// Bytes of a CPU that nobody may ever look at: the first look takes memory for them and calls
  /// `fill`.
  Storage(std::size_t nbytes, Device device, std::function<void(std::byte*)> fill);
  /// No bytes: whoever looks for them gets an Error that says `why`.
  Storage(std::size_t nbytes, Device device, std::string why);
  ~Storage();
  Storage(const Storage&) = delete;
  Storage& operator=(const Storage&) = delete;

  std::byte* data() const { return block().data; }
  std::size_t nbytes() const { return nbytes_; }
  Device device() const { return device_; }
  const Block& block() const {
    if (unfilled_.load(std::memory_order_acquire)) [[unlikely]]
      fill();
    return block_;
  }

  /// Its memory is used again only behind `until`, a point in a stream that does not wait for those
  /// who let go of it; a later one of the same `user` takes its place.
  void use_until(std::uint64_t user, std::shared_ptr<const Event> until);

  std::uint64_t version() const { return version_.load(std::memory_order_relaxed); }
  /// Before bytes are written; frees what sidecars nobody is using.
  void bump_version() {
    version_.fetch_add(1, std::memory_order_relaxed);
    if (has_sidecars_.load(std::memory_order_relaxed)) [[unlikely]]
      drop_sidecars();
  }
  /// From now on somebody else may write, of which no version tells: there are no sidecars.
  void share_outside();
  bool is_shared_outside() const { return shared_outside_; }

  /// The bytes at `offset` in another form, as `build` makes it. The first time that a version is
  /// asked for one there is none (null), as most are used once, unless it is wanted `at_once`.
  std::shared_ptr<Storage> sidecar(std::size_t offset, const SidecarForm& form,
                                   const std::function<std::shared_ptr<Storage>()>& build,
                                   bool at_once = false);
  /// Forgets them, as a write does.
  void drop_sidecars();

  // ---- a mirror: f32 numbers rounded to bf16, each in its place ----

  /// Some work would rather read one than round the numbers itself.
  void want_mirror() { wants_mirror_.store(true, std::memory_order_relaxed); }
  bool wants_mirror() const { return wants_mirror_.load(std::memory_order_relaxed); }
  /// Takes `mirror`, null for none, as that of the bytes as they are now behind the work of
  /// `stream` (Backend::stream). The next version has none, but the memory stays.
  void set_mirror(std::shared_ptr<Storage> mirror, const void* stream = nullptr);
  /// Of this version and for work on `stream`; else null.
  std::shared_ptr<Storage> mirror(const void* stream);

 private:
  struct Sidecar {
    std::size_t offset;
    SidecarForm form;
    std::uint64_t version;
    std::shared_ptr<Storage> value;  // null: asked for once
  };
  struct Use {
    std::uint64_t user;
    std::shared_ptr<const Event> until;
  };
  struct Mirror {
    std::shared_ptr<Storage> value;
    const void* stream = nullptr;
    std::uint64_t version = 0;
  };
  void fill() const;
  void give_back();

  mutable Block block_;
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
