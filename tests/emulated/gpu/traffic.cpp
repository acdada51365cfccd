#include "traffic.h"

#include <algorithm>

namespace ringlet::emulated {
namespace {

constexpr std::uint64_t kSector = 32, kBanks = 32, kBank = 4;

std::uint64_t up(std::uint64_t value, std::uint64_t by) { return (value + by - 1) / by; }

}  // namespace

std::uint64_t Addresses::sectors() {
  const auto end = addresses_.begin() + static_cast<std::ptrdiff_t>(used_);
  std::transform(addresses_.begin(), end, addresses_.begin(),
                 [](Address address) { return address / kSector; });
  std::sort(addresses_.begin(), end);
  return static_cast<std::uint64_t>(std::unique(addresses_.begin(), end) - addresses_.begin());
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

void Addresses::count(Count& to, Space space, std::uint32_t nbytes) {
  if (space == Space::local || space == Space::parameter) return;
  const std::uint64_t bytes = used_ * nbytes;
  to.bytes += bytes;
  if (space == Space::shared) {
    to.least += up(used_, nbytes <= kBank ? kLanes : kLanes * kBank / nbytes);
    to.sectors += passes(nbytes);
  } else {
    to.least += up(bytes, kSector);
    to.sectors += sectors();
  }
}

}  // namespace ringlet::emulated
