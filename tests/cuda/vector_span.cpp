#include "ringlet/cuda/vector_span.h"

#include <doctest/doctest.h>

#include <vector>

using namespace ringlet;

namespace {

// Every element once, packs at multiples of 16 bytes.
void check_span(const cuda::VectorSpan& span, std::int64_t n, std::uintptr_t place,
                std::size_t itemsize) {
  std::vector<int> seen(static_cast<std::size_t>(n));
  for (std::int64_t i = 0; i < span.packs; ++i) {
    const std::int64_t begin = span.begin(i);
    CHECK((place + static_cast<std::uintptr_t>(begin) * itemsize) % 16 == 0);
    for (int k = 0; k < span.pack; ++k) ++seen.at(static_cast<std::size_t>(begin + k));
  }
  for (std::int64_t i = 0; i < span.singles(); ++i)
    ++seen.at(static_cast<std::size_t>(span.single(i)));
  CHECK(seen == std::vector<int>(static_cast<std::size_t>(n), 1));
}

const std::byte* at_place(std::uintptr_t place) {
  return reinterpret_cast<const std::byte*>(place);
}

}  // namespace

TEST_CASE("cuda: packs and single elements cover a run of any length and alignment") {
  for (std::size_t itemsize : {4, 8})
    for (std::uintptr_t offset = 0; offset < 16; ++offset)
      for (std::int64_t n = 0; n < 24; ++n) {
        CAPTURE(itemsize);
        CAPTURE(offset);
        CAPTURE(n);
        const std::uintptr_t place = 4096 + offset;
        const auto alike =
            cuda::vector_span(n, itemsize, at_place(place), at_place(place + 160), at_place(0));
        check_span(alike, n, place, itemsize);
        for (std::int64_t first = 0; first < n; ++first)
          for (std::int64_t last = first + 1; last <= n; ++last) {
            const cuda::VectorSpan part = alike.part(first, last);
            const std::uintptr_t begin = place + static_cast<std::uintptr_t>(first) * itemsize;
            check_span(part, last - first, begin, itemsize);
            CHECK((part.packs > 0) ==
                  (cuda::vector_span(last - first, itemsize, at_place(begin)).packs > 0));
          }
        if (offset % itemsize == 0) {
          CHECK(alike.singles() < 2 * alike.pack);
        } else {
          CHECK(alike.packs == 0);
        }
        const auto apart =
            cuda::vector_span(n, itemsize, at_place(place), at_place(place + itemsize));
        check_span(apart, n, place, itemsize);
        CHECK(apart.packs == 0);
        if (n > 2) check_span(apart.part(1, n - 1), n - 2, place + itemsize, itemsize);
      }
}

TEST_CASE(
    "cuda: beside packs of f32 lie 8 aligned bytes of what is half as wide, or there are none") {
  for (std::uintptr_t offset = 0; offset < 16; offset += 4)
    for (std::uintptr_t half_offset = 0; half_offset < 16; half_offset += 2) {
      CAPTURE(offset);
      CAPTURE(half_offset);
      const std::uintptr_t place = 4096 + offset, half = 8192 + half_offset;
      const auto span = cuda::vector_span(40, 4, at_place(place), cuda::as_wide(at_place(half)));
      for (std::int64_t i = 0; i < span.packs; ++i)
        CHECK((half + 2 * static_cast<std::uintptr_t>(span.begin(i))) % 8 == 0);
      CHECK((span.packs > 0) == (2 * half_offset % 16 == offset));
    }
  CHECK(cuda::as_wide(nullptr) == nullptr);
}
