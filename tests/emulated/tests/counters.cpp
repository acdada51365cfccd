// Counters of a launch against counts by hand, and occupancy against NVIDIA's occupancy calculator.
#include "../gpu/counters.h"

#include "../runtime/limits.h"
#include "kernel_text.h"

TEST_SUITE_BEGIN("host");

namespace ringlet::emulated {
namespace {

LaunchCounters counters_of(const std::string& body, dim3 grid, dim3 block,
                           const std::string& variables = "", std::uint64_t seed = 1) {
  count_launches(true);
  take_counters();
  run_kernel(kernel_text(body, variables), Words(4096), {grid, block}, seed);
  count_launches(false);
  const auto launches = take_counters();
  REQUIRE(launches.size() == 1);
  return launches[0];
}

std::uint64_t warps(const LaunchCounters& of, InstructionClass which) {
  return of.warps[static_cast<std::size_t>(which)];
}
std::uint64_t lanes(const LaunchCounters& of, InstructionClass which) {
  return of.lanes[static_cast<std::size_t>(which)];
}

// %rd1: word `stride` * %tid.x of the memory, in units of 4 bytes.
std::string strided(int stride) {
  return "mov.u32 %r1, %tid.x;\nmul.wide.u32 %rd1, %r1, " + std::to_string(4 * stride) +
         ";\nadd.s64 %rd1, %base, %rd1;\n";
}

const std::string kLargeTile = ".shared .align 16 .b8 tile[8192];\n";
// Each thread stores a word at `stride` * %tid.x of `tile`.
std::string shared_store(int stride) {
  return "mov.u32 %r1, %tid.x;\nmul.lo.u32 %r3, %r1, " + std::to_string(4 * stride) +
         ";\nmov.u32 %r4, tile;\nadd.s32 %r3, %r3, %r4;\nst.shared.u32 [%r3], %r1;\n";
}

Kernel with_registers(int registers) {
  Kernel kernel;
  kernel.registers = registers;
  return kernel;
}

}  // namespace

TEST_CASE("sectors: contiguous words share them, strided words do not") {
  const LaunchCounters together = counters_of(strided(1) + "ld.global.u32 %r2, [%rd1];", 2, 64);
  CHECK(together.bytes == 2 * 64 * 4);
  CHECK(together.sectors == 2 * 64 * 4 / kSectorBytes);
  CHECK(together.least_sectors == together.sectors);
  CHECK(together.touched_sectors == 64 * 4 / kSectorBytes);  // both blocks read the same words
  const LaunchCounters apart = counters_of(strided(8) + "ld.global.u32 %r2, [%rd1];", 1, 64);
  CHECK(apart.sectors == 64);
  CHECK(apart.least_sectors == 8);
  CHECK(apart.touched_sectors == 64);
}

TEST_CASE("a sector that is read twice is touched once; one written counts beside one read") {
  const std::string load = "ld.global.u32 %r2, [%rd1];\n";
  const LaunchCounters counts =
      counters_of(strided(1) + load + load + "st.global.u32 [%rd1], %r2;", 1, 32);
  CHECK(counts.sectors == 12);
  CHECK(counts.touched_sectors == 8);
}

TEST_CASE("bank conflicts are passes beyond the least") {
  for (const auto& [stride, passes] : {std::pair{1, 1}, {2, 2}, {32, 32}, {33, 1}}) {
    const LaunchCounters counts = counters_of(shared_store(stride), 1, 32, kLargeTile);
    CHECK(counts.least_passes == 1);
    CHECK(counts.bank_passes == static_cast<std::uint64_t>(passes));
  }
  const std::string broadcast = "st.shared.u32 [tile], 1;\nbar.sync 0;\nld.shared.u32 %r2, [tile];";
  CHECK(counters_of("mov.u32 %r1, %tid.x;\nsetp.ne.u32 %p1, %r1, 0;\n@!%p1 " + broadcast, 1, 32,
                    kLargeTile)
            .bank_passes == 2);
  const std::string vectors =
      "mov.u32 %r1, %tid.x;\nshl.b32 %r3, %r1, 4;\nmov.u32 %r4, tile;\nadd.s32 %r3, %r3, %r4;\n"
      "st.shared.v4.u32 [%r3], {%r1, %r1, %r1, %r1};\n";
  const LaunchCounters wide = counters_of(vectors, 1, 32, kLargeTile);
  CHECK(wide.bank_passes == 4);
  CHECK(wide.least_passes == 4);
}

TEST_CASE("instructions by class; lanes that a branch leaves out are idle") {
  const std::string body =
      "mov.u32 %r1, %tid.x;\nsetp.lt.u32 %p1, %r1, 8;\n@!%p1 bra end;\nmov.f32 %f1, 0f3f800000;\n"
      "add.f32 %f2, %f1, %f1;\nex2.approx.ftz.f32 %f2, %f2;\ncvt.rn.f64.f32 %d1, %f2;\n"
      "add.f64 %d1, %d1, %d1;\nend:\nbar.sync 0;\n";
  for (const std::uint64_t seed : {1, 2}) {
    const LaunchCounters counts = counters_of(body, 3, 64, "", seed);
    CHECK(warps(counts, InstructionClass::integer) == 6);  // setp of two warps in three blocks
    CHECK(warps(counts, InstructionClass::f32) == 3);
    CHECK(lanes(counts, InstructionClass::f32) == 3 * 8);
    CHECK(warps(counts, InstructionClass::special) == 3);
    CHECK(warps(counts, InstructionClass::conversion) == 3);
    CHECK(warps(counts, InstructionClass::f64) == 3);
    CHECK(warps(counts, InstructionClass::barrier) == 6);
    CHECK(warps(counts, InstructionClass::control) == 12);  // bra and ret
    CHECK(lanes(counts, InstructionClass::control) == 32 * 12);
    CHECK(counts.blocks == 3);
    CHECK(counts.threads == 64);
  }
}

TEST_CASE("registers limit the resident blocks, and refuse a block that has too few") {
  CHECK(blocks_of_multiprocessor(with_registers(0), 256, 0) == 8);
  CHECK(blocks_of_multiprocessor(with_registers(32), 256, 0) == 8);
  CHECK(blocks_of_multiprocessor(with_registers(33), 256, 0) == 6);
  CHECK(blocks_of_multiprocessor(with_registers(64), 256, 0) == 4);
  CHECK(blocks_of_multiprocessor(with_registers(168), 128, 0) == 3);
  CHECK(blocks_of_multiprocessor(with_registers(255), 256, 0) == 1);
  CHECK(has_registers(with_registers(64), 1024));
  CHECK(!has_registers(with_registers(65), 1024));
  CHECK(!has_registers(with_registers(255), 288));
}

}  // namespace ringlet::emulated

TEST_SUITE_END();
