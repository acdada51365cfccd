#include "memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <stdexcept>
#include <utility>

namespace ringlet::emulated {
namespace {

constexpr std::size_t kAlignment = 512;
constexpr std::size_t kPinnedAlignment = 4096;  // pages are protected
// The distance of allocations: an overrun of one does not reach the next.
constexpr std::size_t kGap = 4096;
// Larger allocations are poisoned in part; the rest is zero and counts as uninitialised.
constexpr std::size_t kPoisoned = std::size_t{64} << 20;

void* reserve(std::size_t nbytes, int protection) {
  void* const found =
      mmap(nullptr, nbytes, protection, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (found == MAP_FAILED)
    throw std::runtime_error("the emulated GPU cannot reserve addresses for its memory");
  return found;
}

// Two mappings of the same memory.
std::pair<void*, void*> reserve_twice(std::size_t nbytes) {
  const int file = memfd_create("pinned memory", MFD_CLOEXEC);
  const bool made = file >= 0 && ftruncate(file, static_cast<off_t>(nbytes)) == 0;
  const auto map = [&] {
    return mmap(nullptr, nbytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, file, 0);
  };
  void* const first = made ? map() : MAP_FAILED;
  void* const second = made ? map() : MAP_FAILED;
  if (file >= 0) close(file);
  if (first == MAP_FAILED || second == MAP_FAILED)
    throw std::runtime_error("the emulated GPU cannot reserve addresses for pinned memory");
  return {first, second};
}

// Returns whole pages to the system; the range reads as zeros.
void forget(void* from, std::size_t nbytes, int advice = MADV_DONTNEED) {
  const auto begin = reinterpret_cast<std::uintptr_t>(from), end = begin + nbytes;
  const auto first = (begin + 4095) / 4096 * 4096, last = end / 4096 * 4096;
  if (first >= last) {
    std::memset(from, 0, nbytes);
    return;
  }
  std::memset(from, 0, first - begin);
  madvise(reinterpret_cast<void*>(first), last - first, advice);
  std::memset(reinterpret_cast<void*>(last), 0, end - last);
}

}  // namespace

Region::Region(int owner) : owner_(owner) {
  if (owner == kHost) {
    const auto [addresses, view] = reserve_twice(kBytes);
    begin_ = reinterpret_cast<Address>(addresses);
    view_ = static_cast<std::byte*>(view);
  } else {
    begin_ = reinterpret_cast<Address>(reserve(kBytes, PROT_NONE));
    view_ = static_cast<std::byte*>(reserve(kBytes, PROT_READ | PROT_WRITE));
  }
  shadow_ = static_cast<Granule*>(reserve(kBytes / 4 * sizeof(Granule), PROT_READ | PROT_WRITE));
  parts_ = static_cast<Granule*>(reserve(kBytes * sizeof(Granule), PROT_READ | PROT_WRITE));
  written_ = static_cast<std::uint8_t*>(reserve(kBytes / 8, PROT_READ | PROT_WRITE));
  last_uses_ =
      static_cast<LastUse*>(reserve(kBytes / 32 * sizeof(LastUse), PROT_READ | PROT_WRITE));
  next_ = (begin_ + kPinnedAlignment - 1) / kPinnedAlignment * kPinnedAlignment + kGap;
}

Address Region::allocate(std::size_t nbytes) {
  const std::size_t unit = owner_ == kHost ? kPinnedAlignment : kAlignment;
  const std::size_t room = (nbytes + unit - 1) / unit * unit + kGap;
  if (next_ + room > begin_ + kBytes)
    throw std::runtime_error("the emulated GPU is out of addresses");
  const Address address = next_;
  next_ += room;
  blocks_[address] = nbytes;
  used_ += nbytes;
  std::memset(view(address), 0xff, std::min(nbytes, kPoisoned));
  // Host writes to pinned memory cannot be observed.
  if (owner_ == kHost) std::memset(written(address), 0xff, (nbytes + 7) / 8);
  return address;
}

void Region::release(Address address) {
  const auto found = blocks_.find(address);
  const std::size_t nbytes = found->second;
  used_ -= nbytes;
  blocks_.erase(found);
  forget(view(address), nbytes, owner_ == kHost ? MADV_REMOVE : MADV_DONTNEED);
  const Shadow held = shadow(address);
  forget(held.whole, (nbytes + 3) / 4 * sizeof(Granule));
  forget(held.parts, (nbytes + 3) / 4 * 4 * sizeof(Granule));
  forget(written(address), (nbytes + 7) / 8);
  forget(last_use(address), (nbytes + 31) / 32 * sizeof(LastUse));
}

Region::Range Region::find(Address address) const {
  auto next = blocks_.upper_bound(address);
  if (next == blocks_.begin()) return {};
  --next;
  const Range range{next->first, next->first + next->second};
  return address < range.end ? range : Range{};
}

Memory::Memory() {
  for (int owner = kHost; owner < kMostDevices; ++owner) regions_.push_back(new Region(owner));
}

// Never destroyed: programs end with live allocations.
Memory& Memory::instance() {
  static auto* const memory = new Memory;
  return *memory;
}

Region* Memory::region(Address address) {
  for (Region* region : regions_)
    if (region->contains(address)) return region;
  return nullptr;
}

}  // namespace ringlet::emulated
