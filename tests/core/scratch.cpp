#include "ringlet/core/cpu/scratch.h"

#include <doctest/doctest.h>

#include <cstdint>
#include <cstring>

using ringlet::cpu::Scratch;

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
    const Scratch again(100);  // the chunks have become one
    first = again.as<void>();
    const Scratch inner(std::size_t{8} << 20);
    CHECK(inner.as<char>() == again.as<char>() + 128);
  }
  CHECK(Scratch(std::size_t{9} << 20).as<void>() == first);
  CHECK(Scratch(0).as<void>() == first);
}
