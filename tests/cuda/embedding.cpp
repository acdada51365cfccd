#include <doctest/doctest.h>

#include <algorithm>
#include <vector>

#include "ringlet/cuda/embedding_runs.h"
#include "ringlet/cuda/sort.h"

using namespace ringlet;

namespace {

// The number of additions of each sorted place, with the kernels' division of places.
std::vector<int> places_added(const std::vector<std::uint32_t>& keys, std::int64_t rows) {
  const auto count = static_cast<std::int64_t>(keys.size());
  std::vector<int> added(keys.size());
  for (std::int64_t place = 0; place < count; ++place) {
    if (!cuda::begins_run(keys.data(), place, rows) || cuda::is_long_run(keys.data(), place, count))
      continue;
    const std::int64_t end = cuda::end_of_run(keys.data(), place, count);
    CHECK(end - place < cuda::kLongEmbeddingRun);
    for (std::int64_t k = place; k < end; ++k) ++added[static_cast<std::size_t>(k)];
  }
  for (std::int64_t first = 0; first < count; first += cuda::kLongEmbeddingRun) {
    int found = 0;
    for (std::int64_t place = first; place < std::min(count, first + cuda::kLongEmbeddingRun);
         ++place) {
      if (!cuda::begins_run(keys.data(), place, rows) ||
          !cuda::is_long_run(keys.data(), place, count))
        continue;
      ++found;
      const std::int64_t end = cuda::end_of_run(keys.data(), place, count);
      CHECK(end - place >= cuda::kLongEmbeddingRun);
      for (std::int64_t k = place; k < end; ++k) ++added[static_cast<std::size_t>(k)];
    }
    CHECK(found <= 1);
  }
  return added;
}

}  // namespace

TEST_CASE("cuda: every token with a row is added up once, in short runs and long ones") {
  constexpr std::int64_t kRows = 40;
  for (int most : {1, 2, 31, 32, 33, 64, 65, 100})
    for (std::uint32_t seed = 0; seed < 20; ++seed) {
      CAPTURE(most);
      CAPTURE(seed);
      std::vector<std::uint32_t> keys;
      std::uint32_t state = seed * 747796405u + static_cast<std::uint32_t>(most);
      for (std::int32_t id = -1; id <= kRows; ++id) {
        state = state * 1664525u + 1013904223u;
        const auto tokens = static_cast<int>(state >> 8) % (most + 1);
        keys.insert(keys.end(), static_cast<std::size_t>(seed == 0 ? most : tokens),
                    cuda::embedding_key(id, kRows));
      }
      std::sort(keys.begin(), keys.end());
      const std::vector<int> added = places_added(keys, kRows);
      for (std::size_t i = 0; i < keys.size(); ++i) CHECK(added[i] == (keys[i] < kRows ? 1 : 0));
    }
}

TEST_CASE("cuda: a run is long from 32 tokens on, at the end of all places too") {
  for (std::int64_t tokens : {1, 31, 32, 33}) {
    const std::vector<std::uint32_t> keys(static_cast<std::size_t>(tokens), 3);
    CHECK(cuda::is_long_run(keys.data(), 0, tokens) == (tokens >= 32));
    CHECK(cuda::end_of_run(keys.data(), 0, tokens) == tokens);
  }
}

TEST_CASE("cuda: keys are sorted by as many bits as they have") {
  CHECK(cuda::key_bits(0) == 1);
  CHECK(cuda::key_bits(1) == 1);
  CHECK(cuda::key_bits(2) == 2);
  CHECK(cuda::key_bits(30527) == 15);
  CHECK(cuda::key_bits(32767) == 15);
  CHECK(cuda::key_bits(32768) == 16);
  CHECK(cuda::key_bits(2147483647) == 31);
  CHECK(cuda::embedding_key(-1, 5) == 5);
  CHECK(cuda::embedding_key(4, 5) == 4);
  CHECK(cuda::embedding_key(5, 5) == 5);
}
