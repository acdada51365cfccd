// Warp-wide execution: divergence, shuffles, votes, mma and barriers.
#include "kernel_text.h"

TEST_SUITE_BEGIN("host");

namespace ringlet::emulated {
namespace {

// Stores %r1 of each thread of one block to word %tid.x.
const std::string kStore =
    "mov.u32 %r15, %tid.x;\nmul.wide.u32 %rd15, %r15, 8;\nadd.s64 %rd15, %base, %rd15;\n"
    "cvt.u64.u32 %rd14, %r1;\nst.global.u64 [%rd15], %rd14;";

Words results(const std::string& body, std::uint32_t threads, std::uint64_t seed = 1) {
  return run_kernel(kernel_text(body + kStore), Words(threads), {1, threads}, seed);
}

}  // namespace

TEST_CASE("lanes that diverge meet again") {
  // 7 for odd lanes, 5 + the lane for even ones, then the sum over all lanes by a shuffle.
  const std::string body =
      "mov.u32 %r2, %tid.x;\nand.b32 %r3, %r2, 1;\nsetp.eq.s32 %p1, %r3, 0;\n"
      "@%p1 bra even;\nmov.u32 %r1, 7;\nbra both;\neven:\nadd.s32 %r1, %r2, 5;\nboth:\n"
      "shfl.sync.bfly.b32 %r4|%p2, %r1, 16, 31, -1;\nadd.s32 %r1, %r1, %r4;\n";
  const Words words = results(body, 32);
  for (std::uint64_t lane = 0; lane < 32; ++lane)
    CHECK(words[lane] == (lane % 2 ? 14 : 10 + lane + (lane ^ 16)));
}

TEST_CASE("a loop that lanes leave at different iterations") {
  const std::string body =
      "mov.u32 %r2, %tid.x;\nmov.u32 %r1, 0;\nagain:\nadd.s32 %r1, %r1, 2;\n"
      "sub.s32 %r2, %r2, 1;\nsetp.ge.s32 %p1, %r2, 0;\n@%p1 bra again;\n";
  const Words words = results(body, 40);
  for (std::uint64_t thread = 0; thread < 40; ++thread) CHECK(words[thread] == 2 * (thread + 1));
}

TEST_CASE("shuffles read their lane, or their own where that is outside of the segment") {
  const auto shuffled = [](const std::string& mode, const std::string& by,
                           const std::string& limits) {
    return results("mov.u32 %r2, %tid.x;\nshfl.sync." + mode + ".b32 %r1|%p1, %r2, " + by + ", " +
                       limits + ", -1;\n",
                   32);
  };
  const Words down = shuffled("down", "4", "31"), up = shuffled("up", "4", "0");
  const Words index = shuffled("idx", "9", "31");
  const Words halves = shuffled("down", "1", "4111");  // segments of 16 lanes: 16 << 8 | 15
  for (std::uint64_t lane = 0; lane < 32; ++lane) {
    CHECK(down[lane] == (lane < 28 ? lane + 4 : lane));
    CHECK(up[lane] == (lane >= 4 ? lane - 4 : lane));
    CHECK(index[lane] == 9);
    CHECK(halves[lane] == (lane % 16 < 15 ? lane + 1 : lane));
  }
  // The predicate: whether the lane lies in the segment of 8 lanes (24 << 8 | 31), here beyond it.
  const Words within = results(
      "mov.u32 %r2, %tid.x;\nshfl.sync.bfly.b32 %r3|%p1, %r2, 9, 6151, -1;\n"
      "selp.b32 %r4, 100, 0, %p1;\nadd.s32 %r1, %r3, %r4;\n",
      32);
  for (std::uint64_t lane = 0; lane < 32; ++lane)
    CHECK(within[lane] == ((lane ^ 9) <= (lane | 7) ? 100 + (lane ^ 9) : lane));
}

TEST_CASE("votes of the lanes of a mask") {
  const Words ballot = results(
      "mov.u32 %r2, %tid.x;\nsetp.lt.u32 %p1, %r2, 5;\nvote.sync.ballot.b32 %r1, %p1, -1;\n", 32);
  CHECK(ballot[31] == 31);
  // As CUB spells it, of some lanes, negated.
  const Words some = results(
      "mov.u32 %r2, %tid.x;\nsetp.lt.u32 %p1, %r2, 5;\nmov.u32 %r1, 0;\nsetp.lt.u32 %p2, %r2, 8;\n"
      "@!%p2 bra end;\nvote.ballot.sync.b32 %r1, !%p1, 0xff;\nend:\n",
      32);
  CHECK(some[7] == 0xe0);
  CHECK(some[8] == 0);
  const Words all = results(
      "mov.u32 %r2, %tid.x;\nsetp.lt.u32 %p1, %r2, 40;\nvote.sync.all.pred %p2, %p1, -1;\n"
      "selp.b32 %r1, 1, 0, %p2;\n",
      32);
  CHECK(all[0] == 1);
}

TEST_CASE("mma: the manual's places of A, B, C and D in the lanes' registers") {
  // Integers that bf16 holds, without a symmetry; products and sums are exact.
  const auto a = [](int row, int k) { return 3 * row - 2 * k + 5; };
  const auto b = [](int k, int column) { return 7 * k - 5 * column - 31; };
  const auto c = [](int row, int column) { return 100 * row + column; };
  const auto pair = [](int low, int high) {
    const auto upper = [](int value) { return std::bit_cast<std::uint32_t>(float(value)) >> 16; };
    return std::uint64_t{upper(low)} | std::uint64_t{upper(high)} << 16;
  };
  Words words(32 * 14);  // of each lane: four of A, two of B, four of C, four of D
  const auto place = [](int lane, int i) { return static_cast<std::size_t>(14 * lane + i); };
  for (int lane = 0; lane < 32; ++lane) {
    const int group = lane >> 2, in_group = lane % 4;
    for (int i = 0; i < 8; i += 2) {
      const int row = i < 2 || (i >= 4 && i < 6) ? group : group + 8;
      const int k = in_group * 2 + (i >= 4 ? 8 : 0);
      words[place(lane, i / 2)] = pair(a(row, k), a(row, k + 1));
    }
    for (int i = 0; i < 4; i += 2) {
      const int k = in_group * 2 + (i >= 2 ? 8 : 0);
      words[place(lane, 4 + i / 2)] = pair(b(k, group), b(k + 1, group));
    }
    for (int i = 0; i < 4; ++i)
      words[place(lane, 6 + i)] =
          std::bit_cast<std::uint32_t>(float(c(i < 2 ? group : group + 8, in_group * 2 + i % 2)));
  }
  std::string body =
      "mov.u32 %r15, %tid.x;\nmul.wide.u32 %rd1, %r15, 112;\nadd.s64 %rd1, %base, %rd1;\n";
  const auto at = [](int i) { return "[%rd1+" + std::to_string(8 * i) + ']'; };
  for (int i = 0; i < 6; ++i) body += "ld.global.b32 %r" + std::to_string(i) + ", " + at(i) + ";\n";
  for (int i = 0; i < 4; ++i)
    body += "ld.global.f32 %f" + std::to_string(i) + ", " + at(6 + i) + ";\n";
  body +=
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%f4, %f5, %f6, %f7}, "
      "{%r0, %r1, %r2, %r3}, {%r4, %r5}, {%f0, %f1, %f2, %f3};\n";
  for (int i = 0; i < 4; ++i)
    body += "st.global.f32 " + at(10 + i) + ", %f" + std::to_string(4 + i) + ";\n";
  words = run_kernel(kernel_text(body), words, {1, 32});
  for (int lane = 0; lane < 32; ++lane) {
    for (int i = 0; i < 4; ++i) {
      const int row = lane / 4 + (i < 2 ? 0 : 8), column = lane % 4 * 2 + i % 2;
      int sum = c(row, column);
      for (int k = 0; k < 16; ++k) sum += a(row, k) * b(k, column);
      CHECK(words[place(lane, 10 + i)] == std::bit_cast<std::uint32_t>(float(sum)));
    }
  }
}

TEST_CASE("a barrier that reduces, over warps of a block") {
  const std::string body =
      "mov.u32 %r2, %tid.x;\nsetp.ne.u32 %p1, %r2, 50;\nbar.red.and.pred %p2, 0, %p1;\n"
      "bar.red.or.pred %p3, 0, !%p1;\nselp.b32 %r3, 1, 0, %p2;\nselp.b32 %r1, 2, 0, %p3;\n"
      "or.b32 %r1, %r1, %r3;\n";
  for (const std::uint64_t seed : {1, 2, 3}) CHECK(results(body, 64, seed)[63] == 2);
}

TEST_CASE("divergent barriers and absent lanes are faults") {
  CHECK(fault_in("mov.u32 %r1, %tid.x;\nsetp.lt.u32 %p1, %r1, 3;\n@%p1 bra other;\n"
                 "bar.sync 0;\nbra end;\nother:\nbar.sync 0;\nend:\n",
                 1, 32)
            .starts_with("lanes wait for others that never come here"));
  CHECK(fault_in("mov.u32 %r1, %tid.x;\nsetp.lt.u32 %p1, %r1, 3;\n@%p1 ret;\n"
                 "shfl.sync.idx.b32 %r2|%p2, %r1, 0, 31, -1;\n",
                 1, 32)
            .starts_with("a warp operation names lanes that have exited"));
  CHECK(fault_in("mov.u32 %r1, %tid.x;\nshfl.sync.idx.b32 %r2|%p2, %r1, 9, 31, 0xff;\n", 1, 8)
            .starts_with("a shuffle reads lane 9, which takes no part"));
}

}  // namespace ringlet::emulated

TEST_SUITE_END();
