// ldmatrix and cp.async: places, sizes, groups, and what has not been waited for.
#include "../gpu/counters.h"
#include "kernel_text.h"

TEST_SUITE_BEGIN("host");

namespace ringlet::emulated {
namespace {

const std::string kCopyTile = ".shared .align 16 .b8 tile[1024];\n";
// %r1: thread; %r3: address of its 16 bytes of `tile`; %rd1: of its 16 bytes of the memory.
const std::string kCopyPlaces =
    "mov.u32 %r1, %tid.x;\nshl.b32 %r2, %r1, 4;\nmov.u32 %r4, tile;\nadd.s32 %r3, %r2, %r4;\n"
    "cvt.u64.u32 %rd2, %r2;\nadd.s64 %rd1, %base, %rd2;\n";
// Thread t copies bytes 16 t to 16 t + 15.
const std::string kCopy = "cp.async.cg.shared.global [%r3], [%rd1], 16;\n";
const std::string kCommit = "cp.async.commit_group;\n", kWait = "cp.async.wait_group 0;\n";
const std::string kReadOwn = "ld.shared.v4.u32 {%r5, %r6, %r7, %r8}, [%r3];\n";
const std::string kReadNext =
    "xor.b32 %r9, %r3, 16;\nld.shared.v4.u32 {%r5, %r6, %r7, %r8}, [%r9];\n";
const std::string kReadOtherWarp =
    "xor.b32 %r9, %r3, 512;\nld.shared.v4.u32 {%r5, %r6, %r7, %r8}, [%r9];\n";
const std::string kStoreOwn = "st.global.v4.u32 [%rd1+512], {%r5, %r6, %r7, %r8};\n";

std::string copy_fault(const std::string& body, unsigned threads = 32) {
  return fault_in(kCopyPlaces + body, 1, threads, kCopyTile);
}

/// 64 rows of eight b16: element c of row r is 8 r + c.
Words numbered_rows() {
  Words words(128);
  for (std::uint64_t i = 0; i < 512; ++i) words[i / 4] |= i << i % 4 * 16;
  return words;
}

Words loaded_matrices(std::size_t matrices, bool transposed) {
  std::string body = kCopyPlaces + kCopy + kCommit + kWait + "bar.warp.sync -1;\n";
  const char* const registers[] = {"{%r5}", "{%r5, %r6}", "", "{%r5, %r6, %r7, %r8}"};
  body += "mov.u32 %r6, 0;\nmov.u32 %r7, 0;\nmov.u32 %r8, 0;\n";
  body += "ldmatrix.sync.aligned.m8n8.x" + std::to_string(matrices) + (transposed ? ".trans" : "") +
          ".shared.b16 " + registers[matrices - 1] + ", [%r3];\n";
  return run_kernel(kernel_text(body + kStoreOwn, kCopyTile), numbered_rows(), {1, 32});
}

LaunchCounters copy_counters(const std::string& body) {
  count_launches(true);
  take_counters();
  run_kernel(kernel_text(body, kCopyTile), Words(256), {1, 32});
  count_launches(false);
  return take_counters().at(0);
}

}  // namespace

TEST_CASE("ldmatrix: a lane gets a pair of a row, transposed one of a column") {
  for (const bool transposed : {false, true})
    for (const std::size_t matrices : {1, 2, 4}) {
      const Words words = loaded_matrices(matrices, transposed);
      for (std::size_t lane = 0; lane < 32; ++lane)
        for (std::size_t i = 0; i < matrices; ++i) {
          const std::uint64_t pair = words[64 + 2 * lane + i / 2] >> i % 2 * 32 & 0xffffffff;
          const std::size_t row = lane / 4, column = lane % 4 * 2;
          for (std::size_t k = 0; k < 2; ++k) {
            const std::size_t number =
                transposed ? 8 * (8 * i + column + k) + row : 8 * (8 * i + row) + column + k;
            CHECK((pair >> 16 * k & 0xffff) == number);
          }
        }
    }
}

TEST_CASE("ldmatrix reads for the whole warp: its own lane's store needs a barrier, too") {
  const std::string store = "st.shared.v4.u32 [%r3], {%r1, %r1, %r1, %r1};\n";
  const std::string load =
      "ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r5, %r6, %r7, %r8}, [%r3];\n";
  CHECK(copy_fault(store + load).starts_with("a race: read here"));
  CHECK(copy_fault(store + "bar.warp.sync -1;\n" + load) == "");
  CHECK(copy_fault(store + "bar.warp.sync -1;\n" + load + store).starts_with("a race: written"));
  CHECK(copy_fault(store + "bar.warp.sync -1;\nadd.s32 %r3, %r3, 2;\n" + load)
            .find("is not aligned") != std::string::npos);
  CHECK(copy_fault(load).starts_with("a read of bytes that nothing has written"));
}

TEST_CASE("ldmatrix takes a pass per eight rows, and more where rows share banks") {
  const auto passes = [](int stride, const std::string& count, const std::string& registers) {
    const LaunchCounters counts = copy_counters(
        "mov.u32 %r1, %tid.x;\nshl.b32 %r2, %r1, 2;\nmov.u32 %r4, tile;\nadd.s32 %r3, %r2, %r4;\n"
        "mov.u32 %r5, 0;\nagain:\nst.shared.u32 [%r3], %r5;\nadd.s32 %r3, %r3, 128;\n"
        "add.s32 %r5, %r5, 1;\nsetp.lt.u32 %p1, %r5, 8;\n@%p1 bra again;\nbar.warp.sync -1;\n"
        "and.b32 %r1, %r1, 7;\nmul.lo.u32 %r2, %r1, " +
        std::to_string(stride) + ";\nadd.s32 %r3, %r2, %r4;\nldmatrix.sync.aligned.m8n8." + count +
        ".shared.b16 " + registers + ", [%r3];\n");
    CHECK(counts.least_passes == 8 + (count == "x1" ? 1 : 4));
    return counts.bank_passes - 8;
  };
  CHECK(passes(16, "x1", "{%r5}") == 1);
  CHECK(passes(16, "x4", "{%r5, %r6, %r7, %r8}") == 4);
  CHECK(passes(32, "x1", "{%r5}") == 2);
  CHECK(passes(64, "x1", "{%r5}") == 4);
  CHECK(passes(128, "x4", "{%r5, %r6, %r7, %r8}") == 32);
  CHECK(passes(112, "x1", "{%r5}") == 1);  // (16 r + 7) banks: eight distinct quarters
}

TEST_CASE("cp.async copies 4, 8 or 16 bytes, and fills what it does not read with zeros") {
  for (const std::size_t bytes : {4, 8, 16})
    for (const std::size_t read : {std::size_t{0}, bytes - 1, bytes}) {
      const std::string size = std::to_string(bytes);
      const std::string ones = "mov.u32 %r5, -1;\nst.shared.v4.u32 [%r3], {%r5, %r5, %r5, %r5};\n";
      const std::string limit = "mov.u32 %r10, " + std::to_string(read) + ";\n";
      const std::string copy =
          (bytes == 16 && read == 15 ? "cp.async.cg.shared.global" : "cp.async.ca.shared.global") +
          std::string(" [%r3], [%rd1], ") + size + (read == bytes ? "" : ", %r10") + ";\n";
      const std::string body =
          kCopyPlaces + limit + ones + copy + "cp.async.wait_all;\n" + kReadOwn;
      const Words words =
          run_kernel(kernel_text(body + kStoreOwn, kCopyTile), numbered_rows(), {1, 32});
      for (std::size_t i = 0; i < 512; ++i) {
        const auto byte = [&](std::size_t at) { return words[at / 8] >> at % 8 * 8 & 0xff; };
        const std::size_t k = i % 16;
        CHECK(byte(512 + i) == (k < read ? byte(i) : k < bytes ? 0 : 0xff));
      }
    }
}

TEST_CASE("cp.async: a predicate leaves the source unread, also one out of bounds") {
  const std::string far = "add.s64 %rd1, %rd1, 4096;\nsetp.eq.u32 %p1, %r1, %r1;\n";
  const std::string copy = "cp.async.ca.shared.global [%r3], [%rd1], 16";
  CHECK(copy_fault(far + copy + ", %p1;\ncp.async.wait_all;\n" + kReadOwn) == "");
  CHECK(copy_fault(far + copy + ";\ncp.async.wait_all;\n").find("in no block of memory") !=
        std::string::npos);
}

TEST_CASE("bytes of a copy that was not waited for are a fault, to read and to write") {
  const std::string pending = "a read of bytes that a copy of thread";
  CHECK(copy_fault(kCopy + kReadOwn).starts_with(pending));
  CHECK(copy_fault(kCopy + kCommit + "bar.sync 0;\n" + kReadOwn).starts_with(pending));
  CHECK(copy_fault(kCopy + kWait + kReadOwn).starts_with(pending));  // it is in no group yet
  CHECK(copy_fault(kCopy + kCommit + "cp.async.wait_group 1;\n" + kReadOwn).starts_with(pending));
  CHECK(copy_fault(kCopy + kCommit + "cp.async.wait_group 1;\nbar.sync 0;\n" + kReadNext)
            .starts_with(pending));
  CHECK(
      copy_fault(kCopy + "st.shared.u32 [%r3], 1;\n").starts_with("a write of bytes that a copy"));
  CHECK(copy_fault(kCopy + kCopy).starts_with("a write of bytes that a copy"));
  CHECK(copy_fault(kCopy + kCommit + kWait + kReadOwn) == "");
  CHECK(copy_fault(kCopy + "cp.async.wait_all;\n" + kReadOwn) == "");
  // The older group, while a newer one is in flight.
  const std::string two = kCopy + kCommit + "add.s32 %r9, %r3, 512;\n" +
                          "cp.async.cg.shared.global [%r9], [%rd1], 16;\n" + kCommit;
  CHECK(copy_fault(two + "cp.async.wait_group 1;\n" + kReadOwn) == "");
  CHECK(copy_fault(two + "cp.async.wait_group 2;\n" + kReadOwn).starts_with(pending));
  CHECK(
      copy_fault(two + "cp.async.wait_group 1;\nld.shared.u32 %r5, [%r9];\n").starts_with(pending));
}

TEST_CASE("a copy is visible to its own thread after the wait, to others after a barrier, too") {
  const std::string copied = kCopy + kCommit + kWait;
  const std::string sync = "bar.warp.sync -1;\n";
  CHECK(copy_fault(copied + kReadNext).starts_with("a race: read here"));
  CHECK(copy_fault(copied + sync + kReadNext) == "");
  CHECK(copy_fault(copied + kReadOtherWarp, 64) != "");
  CHECK(copy_fault(copied + sync + kReadOtherWarp, 64) != "");
  CHECK(copy_fault(copied + "bar.sync 0;\n" + kReadOtherWarp, 64) == "");
  // The wait after the barrier, the wrong way round.
  CHECK(copy_fault(kCopy + kCommit + "bar.sync 0;\n" + kWait + kReadOtherWarp, 64) != "");
  // A stage that others still read must not be copied to.
  const std::string again = copied + "bar.sync 0;\n" + kReadOtherWarp;
  CHECK(copy_fault(again + kCopy, 64) != "");
  CHECK(copy_fault(again + "bar.sync 0;\n" + kCopy, 64) == "");
}

TEST_CASE("cp.async counts the sectors that it reads and the passes over banks that it writes") {
  const LaunchCounters counts = copy_counters(kCopyPlaces + kCopy + kCommit + kWait);
  CHECK(counts.bytes == 512);
  CHECK(counts.sectors == 16);
  CHECK(counts.least_sectors == 16);
  CHECK(counts.bank_passes == 4);
  CHECK(counts.least_passes == 4);
  const LaunchCounters filled = copy_counters(
      kCopyPlaces + "mov.u32 %r10, 0;\ncp.async.cg.shared.global [%r3], [%rd1], 16, %r10;\n");
  CHECK(filled.sectors == 0);
  CHECK(filled.bank_passes == 4);
}

}  // namespace ringlet::emulated

TEST_SUITE_END();
