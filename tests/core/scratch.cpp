#include "ringlet/core/cpu/scratch.h"

#include <doctest/doctest.h>

#include <cstdint>
#include <cstring>
#include <thread>

#include "ringlet/core/base/error.h"

using ringlet::cpu::Scratch;
using ringlet::cpu::scratch_bytes;

TEST_CASE("scratch nests, is aligned, and the same memory comes back") {
  void* first = nullptr;
  {
    const Scratch outer(100);
    first = outer.as<void>();
    CHECK(reinterpret_cast<std::uintptr_t>(first) % 64 == 0);
    std::memset(outer.as<char>(), 1, 100);
    const Scratch inner(std::size_t{8} << 20);  // more than the first chunk has
    std::memset(inner.as<char>(), 2, std::size_t{8} << 20);
    CHECK(outer.as<char>()[99] == 1);
  }
  {
    const Scratch again(100);  // the chunks have been merged
    first = again.as<void>();
    const Scratch inner(std::size_t{8} << 20);
    CHECK(inner.as<char>() == again.as<char>() + 128);
  }
  CHECK(Scratch(std::size_t{9} << 20).as<void>() == first);
  CHECK(Scratch(0).as<void>() == first);
}

TEST_CASE("a stack in pieces becomes one when it is used again, not where its scope ends") {
  constexpr std::size_t kMiB = std::size_t{1} << 20;
  // On a separate thread with an empty stack.
  std::thread([] {
    const std::size_t before = scratch_bytes();
    {
      const Scratch outer(kMiB);
      const Scratch inner(8 * kMiB);
      CHECK(scratch_bytes() == before + 10 * kMiB);
    }
    CHECK(scratch_bytes() == before);  // the merge may throw, so it is left to the next request
    const Scratch again(1);
    CHECK(scratch_bytes() == before + 10 * kMiB);
  }).join();
}

TEST_CASE("where memory is refused, what is taken stays") {
  const Scratch outer(100);
  CHECK_THROWS_AS(Scratch(std::size_t{1} << 60), ringlet::Error);
  const Scratch next(100);
  CHECK(next.as<char>() == outer.as<char>() + 128);
}
