#include "philox.h"

#include <doctest/doctest.h>

#include <array>

TEST_SUITE_BEGIN("host");

namespace ringlet::emulated {
namespace {

std::array<std::uint32_t, 4> words_of(const PhiloxBlock& counter, const PhiloxKey& key) {
  const PhiloxBlock block = philox_on_device(counter, key);
  return {block.word[0], block.word[1], block.word[2], block.word[3]};
}

}  // namespace

TEST_CASE("Philox as device code gives the known answers of Random123") {
  using Answer = std::array<std::uint32_t, 4>;
  CHECK(words_of({{0, 0, 0, 0}}, {{0, 0}}) ==
        Answer{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8});
  CHECK(words_of({{~0u, ~0u, ~0u, ~0u}}, {{~0u, ~0u}}) ==
        Answer{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd});
  CHECK(words_of({{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}}, {{0xa4093822, 0x299f31d0}}) ==
        Answer{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1});
}

}  // namespace ringlet::emulated

TEST_SUITE_END();
