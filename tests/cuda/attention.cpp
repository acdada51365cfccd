#include <doctest/doctest.h>

#include <numeric>

#include "attention_cases.h"
#include "ringlet/cuda/attention_bias.h"
#include "warp_emulation.h"

using namespace ringlet;

namespace {

/// Sentences of every length from 1 to `last`.
std::vector<std::int32_t> up_to(std::int32_t last) {
  std::vector<std::int32_t> lengths(static_cast<std::size_t>(last));
  std::iota(lengths.begin(), lengths.end(), 1);
  return lengths;
}

}  // namespace

TEST_CASE("the emulated m16n8k16 is a product of matrices") {
  struct Lane {
    cuda::FragmentA a;
    cuda::FragmentB b;
    float c[4];
  };
  cuda::EmulatedWarp warp;
  cuda::EmulatedWarp::Lanes<Lane> lanes;
  // a[r][k] = r + k, b[k][n] = 3 if k is n, else 0: c[r][n] = 3 (r + n) + 100.
  warp.each(lanes, [](int lane, Lane& s) {
    const int g = lane / 4, t = lane % 4;
    for (int i = 0; i < 4; ++i) {
      const int row = g + i % 2 * 8, k = 2 * t + i / 2 * 8;
      s.a.word[i] =
          cuda::EmulatedWarp::pack(static_cast<float>(row + k), static_cast<float>(row + k + 1));
      s.c[i] = 100;
    }
    for (int i = 0; i < 2; ++i) {
      const int k = 2 * t + i * 8;
      s.b.word[i] = cuda::EmulatedWarp::pack(k == g ? 3 : 0, k + 1 == g ? 3 : 0);
    }
  });
  warp.mma(lanes, [](Lane& s) { return cuda::Mma{s.c, s.a, s.b}; });
  for (int lane = 0; lane < cuda::kLanes; ++lane)
    for (int i = 0; i < 4; ++i)
      CHECK(lanes.of[lane].c[i] ==
            static_cast<float>(100 + 3 * (lane / 4 + i / 2 * 8 + 2 * (lane % 4) + i % 2)));
}

TEST_CASE("attention on tensor cores, run on the host, is the CPU's") {
  for (const AttentionCase& c : {
           AttentionCase{{1}, {}, 1, 64, 0, false, DType::bf16},
           AttentionCase{{16, 32}, {}, 1, 32, 0, true, DType::bf16},
           AttentionCase{{3, 0, 15, 17, 31, 33, 25}, {}, 3, 64, 0.3f, true, DType::bf16},
           AttentionCase{{25, 48, 7, 65}, {20, 5, 7, 33}, 2, 32, 0.5f, true, DType::bf16},
           AttentionCase{{130, 64}, {}, 2, 64, 0, true, DType::bf16},
           AttentionCase{{350}, {}, 1, 32, 0.1f, true, DType::bf16},
           AttentionCase{{200}, {9}, 1, 64, 0.1f, true, DType::bf16},
           AttentionCase{{512}, {}, 1, 32, 0, true, DType::bf16},
           AttentionCase{up_to(65), {}, 1, 32, 0.2f, true, DType::bf16},
       }) {
    CAPTURE(c.lengths[0]);
    CAPTURE(c.size);
    const AttentionInputs in = inputs_of(c);
    check_errors(errors_of(c, in, by_tiles(in), 0x1p-8));
  }
}

TEST_CASE("attention without tensor cores, run on the host, takes the longest sentence") {
  const AttentionCase c{{512}, {}, 1, 64, 0, true, DType::f32};
  const AttentionInputs in = inputs_of(c);
  check_errors(errors_of(c, in, by_rows(in), 0));
}

TEST_CASE("attention without tensor cores, run on the host, is the CPU's") {
  for (DType dtype : {DType::f32, DType::f64, DType::bf16})
    for (const AttentionCase& c : {
             AttentionCase{{1, 5}, {}, 1, 1, 0, false, dtype},
             AttentionCase{{3, 0, 15, 33}, {}, 3, 5, 0.3f, true, dtype},
             AttentionCase{{40, 17}, {20, 5}, 1, 131, 0.5f, true, dtype},
             AttentionCase{{210}, {}, 1, 32, 0, true, dtype},
             AttentionCase{{65, 1, 64}, {}, 1, 64, 0.1f, true, dtype},
         }) {
      CAPTURE(c.size);
      CAPTURE(static_cast<int>(dtype));
      const AttentionInputs in = inputs_of(c);
      check_errors(errors_of(c, in, by_rows(in), 0));
    }
}
