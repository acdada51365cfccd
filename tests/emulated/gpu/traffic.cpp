#include "traffic.h"

#include <algorithm>

#include "../emulated.h"

namespace ringlet::emulated {
namespace {

constexpr std::uint64_t kBanks = 32, kBank = 4;

std::uint64_t up(std::uint64_t value, std::uint64_t by) { return (value + by - 1) / by; }

}  // namespace

void Addresses::find_sectors() {
  const auto end = addresses_.begin() + static_cast<std::ptrdiff_t>(used_);
  std::transform(addresses_.begin(), end, addresses_.begin(),
                 [](Address address) { return address / kSectorBytes; });
  std::sort(addresses_.begin(), end);
  used_ = static_cast<std::size_t>(std::unique(addresses_.begin(), end) - addresses_.begin());
}

// The sectors that the operation had not read, or not written, before.
std::uint64_t Addresses::touched(OperationId operation, bool writes) const {
  std::uint64_t touched = 0;
  for (std::size_t i = 0; i < used_; ++i) {
    Region* const region = Memory::instance().region(addresses_[i] * kSectorBytes);
    if (!region) continue;
    Region::LastUse& last = *region->last_use(addresses_[i] * kSectorBytes);
    OperationId& held = writes ? last.written : last.read;
    touched += held != operation;
    held = operation;
  }
  return touched;
}

// Accesses of 8 and 16 bytes are served in halves and quarters of a warp. A bank serves one word
// per pass; lanes that read the same word share it.
std::uint64_t Addresses::passes(std::uint32_t nbytes) {
  const std::size_t group = nbytes <= kBank ? kLanes : kLanes * kBank / nbytes;
  std::uint64_t passes = 0;
  for (std::size_t begin = 0; begin < used_; begin += group) {
    std::array<std::array<Address, kLanes>, kBanks> words;
    std::array<std::size_t, kBanks> counts{};
    for (std::size_t i = begin; i < std::min(begin + group, used_); ++i) {
      for (Address byte = 0; byte < nbytes; byte += kBank) {
        const Address word = (addresses_[i] + byte) / kBank;
        const std::size_t bank = word % kBanks;
        const auto held = words[bank].begin();
        const auto end = held + static_cast<std::ptrdiff_t>(counts[bank]);
        if (std::find(held, end, word) == end) words[bank][counts[bank]++] = word;
      }
    }
    passes += *std::max_element(counts.begin(), counts.end());
  }
  return passes;
}

void Addresses::count(Count& to, Space space, std::uint32_t nbytes, OperationId operation,
                      bool writes) {
  if (space == Space::local || space == Space::parameter) return;
  const std::uint64_t bytes = used_ * nbytes;
  if (space == Space::shared) {
    to.least_passes += up(used_, nbytes <= kBank ? kLanes : kLanes * kBank / nbytes);
    to.passes += passes(nbytes);
  } else {
    to.bytes += bytes;
    to.least += up(bytes, kSectorBytes);
    find_sectors();
    to.sectors += used_;
    to.touched += touched(operation, writes);
  }
}

}  // namespace ringlet::emulated
