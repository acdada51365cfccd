#include "ringlet/core/tensor/random.h"

#include <doctest/doctest.h>

#include <array>
#include <thread>

#include "ringlet/core/ops/random.h"

using namespace ringlet;

namespace {

using Words = std::array<std::uint32_t, 4>;

Words words(PhiloxBlock block) {
  return {block.word[0], block.word[1], block.word[2], block.word[3]};
}

bool same(PhiloxKey a, PhiloxKey b) { return a.word[0] == b.word[0] && a.word[1] == b.word[1]; }

}  // namespace

TEST_CASE("philox4x32-10 and -7 give the known answers of Random123") {
  CHECK(words(philox({{0, 0, 0, 0}}, {{0, 0}})) ==
        Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8});
  CHECK(words(philox({{~0u, ~0u, ~0u, ~0u}}, {{~0u, ~0u}})) ==
        Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd});
  CHECK(words(philox({{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}},
                     {{0xa4093822, 0x299f31d0}})) ==
        Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1});
  CHECK(words(philox<kWeightRounds>({{0, 0, 0, 0}}, {{0, 0}})) ==
        Words{0x5f6fb709, 0x0d893f64, 0x4f121f81, 0x4f730a48});
  CHECK(words(philox<kWeightRounds>({{~0u, ~0u, ~0u, ~0u}}, {{~0u, ~0u}})) ==
        Words{0x5207ddc2, 0x45165e59, 0x4d8ee751, 0x8c52f662});
  CHECK(words(philox<kWeightRounds>({{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}},
                                    {{0xa4093822, 0x299f31d0}})) ==
        Words{0x4dfccaba, 0x190a87f0, 0xc47362ba, 0xb6b5242a});
}

TEST_CASE("a key is one Philox block over step, site and use, keyed by the seed") {
  const PhiloxBlock block = philox({{7, 1, 5, 0}}, {{9, 2}});
  const PhiloxKey key = derive_key((2ull << 32) + 9, (1ull << 32) + 7, 5);
  CHECK(key.word[0] == block.word[0]);
  CHECK(key.word[1] == block.word[1]);
  CHECK_FALSE(same(derive_key(1, 0, 0), derive_key(2, 0, 0)));
  CHECK_FALSE(same(derive_key(1, 0, 0), derive_key(1, 1, 0)));
  CHECK_FALSE(same(derive_key(1, 0, 0), derive_key(1, 0, 1)));
  CHECK_FALSE(same(derive_key(1, 0, 0), derive_key(1, 0, 0, RandomUse::tensor)));
}

TEST_CASE("the threshold is p 2^32 rounded up") {
  CHECK(dropout_threshold(0.0f) == 0);
  CHECK(dropout_threshold(0.25f) == 1u << 30);
  CHECK(dropout_threshold(0x1p-33f) == 1);
  CHECK(dropout_threshold(1.0f - 0x1p-24f) == 0xffffff00u);
  CHECK(dropout_scale(0.75) == 4.0);
}

TEST_CASE("the p of attention weights is the nearest multiple of 2^-16 below 1") {
  CHECK(weight_share(0.0f) == 0);
  CHECK(weight_share(0.1f) == 6554 / 65536.0f);
  CHECK(weight_share(0x1p-18f) == 0);
  CHECK(weight_share(0x1p-17f) == 0x1p-16f);
  CHECK(weight_share(1.0f - 0x1p-24f) == 1.0f - 0x1p-16f);
  CHECK(dropout_threshold(weight_share(0.1f)) == 6554u << 16);
}

TEST_CASE("each thread has a generator, and a guard puts it back") {
  const GeneratorGuard outer({.seed = 3, .step = 4});
  {
    const GeneratorGuard inner({.seed = 5});
    default_generator().next_step();
    CHECK(default_generator().seed == 5);
    CHECK(default_generator().dropout_key(0.1f, 2).step == 1);
  }
  CHECK(default_generator().seed == 3);
  CHECK(default_generator().step == 4);
  std::thread([] { manual_seed(11); }).join();
  CHECK(default_generator().seed == 3);
}

TEST_CASE("every tensor of a step draws from a key of its own") {
  RandomGenerator generator{.seed = 1};
  const PhiloxKey first = generator.next_key();
  CHECK_FALSE(same(first, generator.next_key()));
  generator.set_step(0);
  CHECK(same(first, generator.next_key()));
}

TEST_CASE("draws and dropout are these bits on every instruction set") {
  // FNV-1a of the bytes.
  const auto hash = [](const Tensor& any) {
    const Tensor x = any.to(Device{});
    std::uint64_t h = 0xcbf29ce484222325;
    for (std::size_t i = 0; i < x.nbytes(); ++i)
      h = (h ^ static_cast<std::uint64_t>(x.bytes()[i])) * 0x100000001b3;
    return h;
  };
  RandomGenerator generator{.seed = 7};
  const Tensor x = uniform({67, 45}, -1, 1, DType::f32, {}, generator);
  CHECK(hash(x) == 13083690321300874760u);
  CHECK(hash(dropout(x, {.p = 0.3f, .seed = 7, .step = 2, .site = 3})) == 6849598898133491431u);
}
