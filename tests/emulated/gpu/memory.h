// Device and pinned memory. The host cannot access device addresses: a stray host access is a
// segmentation fault. Kernels and copies use a second mapping, the view.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <vector>

#include "shadow.h"

namespace ringlet::emulated {

inline constexpr int kMostDevices = 4;
inline constexpr int kHost = -1;  // pinned memory of the host

using Address = std::uint64_t;

/// The address range of one owner with its view and shadow.
class Region {
 public:
  /// `owner`: a device index, or kHost: the host can access the addresses of those regions.
  explicit Region(int owner);

  int owner() const { return owner_; }
  bool contains(Address address) const { return address - begin_ < kBytes; }
  std::byte* view(Address address) const { return view_ + (address - begin_); }
  Shadow shadow(Address address) const {
    const std::size_t granule = (address - begin_) / 4;
    return {shadow_ + granule, parts_ + 4 * granule};
  }
  /// The byte with the written bits of eight bytes: bit i % 8 belongs to byte i of the region.
  std::uint8_t* written(Address address) const { return written_ + (address - begin_) / 8; }
  /// The last operations that read and wrote a sector of 32 bytes, for counters.
  struct LastUse {
    OperationId read = 0, written = 0;
  };
  LastUse* last_use(Address address) const { return last_uses_ + (address - begin_) / 32; }

  /// Never returns an address twice. The memory is filled with 0xff.
  Address allocate(std::size_t nbytes);
  void release(Address address);
  /// The allocation that contains the address; {0, 0} if there is none.
  struct Range {
    Address begin = 0, end = 0;
  };
  Range find(Address address) const;
  std::size_t used() const { return used_; }
  bool owns(Address address) const { return blocks_.contains(address); }

  static constexpr std::size_t kBytes = std::size_t{1} << 36;

 private:
  int owner_;
  Address begin_ = 0, next_ = 0;
  std::byte* view_ = nullptr;
  Granule *shadow_ = nullptr, *parts_ = nullptr;
  std::uint8_t* written_ = nullptr;
  LastUse* last_uses_ = nullptr;
  std::size_t used_ = 0;
  std::map<Address, std::size_t> blocks_;
};

class Memory {
 public:
  static Memory& instance();

  Region& of(int owner) { return *regions_[static_cast<std::size_t>(owner + 1)]; }
  /// Null for addresses of pageable host memory.
  Region* region(Address address);

  /// Enables access from `device` to the memory of `peer`.
  void allow_peer(int device, int peer) { peers_[index(device)][index(peer)] = true; }
  bool has_peer(int device, int peer) const { return peers_[index(device)][index(peer)]; }

 private:
  Memory();
  static std::size_t index(int device) { return static_cast<std::size_t>(device); }
  std::vector<Region*> regions_;  // kHost first
  bool peers_[kMostDevices][kMostDevices] = {};
};

}  // namespace ringlet::emulated
