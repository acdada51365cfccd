// Every fault of a kernel is an error that names kernel, line, block and thread.
#include "kernel_text.h"

TEST_SUITE_BEGIN("host");

namespace ringlet::emulated {
namespace {

// Address of word %tid.x in %rd1; of word (%tid.x + 1) % 64 in %rd2.
const std::string kAddresses =
    "mov.u32 %r1, %tid.x;\nmul.wide.u32 %rd1, %r1, 8;\nadd.s64 %rd1, %base, %rd1;\n"
    "add.s32 %r2, %r1, 1;\nand.b32 %r2, %r2, 63;\nmul.wide.u32 %rd2, %r2, 8;\n"
    "add.s64 %rd2, %base, %rd2;\n";
const std::string kShared = ".shared .align 4 .b8 tile[256];\n";
// 4 * %tid.x and its neighbour in `tile`.
const std::string kNeighbours =
    "mov.u32 %r1, %tid.x;\nshl.b32 %r3, %r1, 2;\nmov.u32 %r4, tile;\nadd.s32 %r3, %r3, %r4;\n"
    "add.s32 %r2, %r1, 1;\nand.b32 %r2, %r2, 63;\nshl.b32 %r5, %r2, 2;\n"
    "add.s32 %r5, %r5, %r4;\n";

/// One GPU writes and sets a flag in its memory; another one waits for it and reads. The fault, or
/// "".
std::string handed_over_between_gpus(const std::string& store, const std::string& load) {
  Memory::instance().allow_peer(1, 0);
  const DeviceWords memory(Words(2));
  const Address address = memory.address();
  std::vector<std::byte> parameters(sizeof(address));
  std::memcpy(parameters.data(), &address, sizeof(address));
  Module writer(kernel_text("st.global.u32 [%base+8], 5;\n" + store + " [%base], 1;")),
      reader(kernel_text("again:\n" + load +
                         " %r2, [%base];\nsetp.eq.u32 %p2, %r2, 0;\n@%p2 bra again;\n"
                         "ld.global.u32 %r3, [%base+8];"));
  const auto launched = [&](Module& module, int gpu) {
    static std::uint32_t number = 1000;
    const auto stream = static_cast<std::uint32_t>(gpu);
    const LaunchOrder order{operation_order().add({stream, ++number, gpu}), {}};
    const LaunchShape shape{.grid = 1, .block = 1, .cooperative = true, .device = gpu};
    return std::make_unique<Launch>(module.kernel("kernel"), shape, parameters, order, 1);
  };
  const auto first = launched(writer, 0), second = launched(reader, 1);
  try {
    for (bool wrote = false, read = false; !wrote || !read;) {
      read = read || second->run(20);
      wrote = wrote || first->run(20);
    }
  } catch (const Fault& fault) {
    return fault.what();
  }
  note_tested(writer.kernel("kernel"));
  note_tested(reader.kernel("kernel"));
  return "";
}

}  // namespace

TEST_CASE("bounds, alignment and uninitialised bytes") {
  CHECK(fault_in("st.global.u32 [%base+2048], 1;", 1, 1).starts_with("an access of 4 bytes at 0x"));
  CHECK(fault_in("st.global.u32 [%base+2], 1;", 1, 1).find("which is not aligned") !=
        std::string::npos);
  CHECK(fault_in("ld.shared.u32 %r1, [tile+4];", 1, 1, kShared)
            .starts_with("a read of bytes that nothing has written"));
  CHECK(fault_in("st.shared.u32 [tile+256], 1;", 1, 1, kShared)
            .starts_with("an access of 4 bytes at 256 of 256 bytes of shared memory"));
  CHECK(fault_in("ld.global.u32 %r1, [%base];", 1, 1).empty());
}

TEST_CASE("a missing barrier is a race in shared memory, a barrier mends it") {
  const auto neighbours = [](const std::string& barrier) {
    return kNeighbours + "st.shared.u32 [%r3], %r1;\n" + barrier + "ld.shared.u32 %r6, [%r5];\n";
  };
  for (const std::uint64_t seed : {1, 2, 3}) {
    CHECK(fault_in(neighbours(""), 1, 64, kShared, seed).starts_with("a race: read here"));
    CHECK(fault_in(neighbours("bar.warp.sync -1;\n"), 1, 64, kShared, seed) != "");
    CHECK(fault_in(neighbours("bar.sync 0;\n"), 1, 64, kShared, seed) == "");
  }
}

TEST_CASE("lanes of one warp race without __syncwarp") {
  const auto neighbours = [](const std::string& barrier) {
    return kNeighbours + "and.b32 %r2, %r2, 31;\nshl.b32 %r5, %r2, 2;\nadd.s32 %r5, %r5, %r4;\n" +
           "st.shared.u32 [%r3], %r1;\n" + barrier + "ld.shared.u32 %r6, [%r5];\n";
  };
  CHECK(fault_in(neighbours(""), 1, 32, kShared).starts_with("a race"));
  // Many of them, too: the shadow's counter has more than 8 bits.
  const std::string often =
      "mov.u32 %r7, 256;\nagain:\nbar.warp.sync -1;\nsub.s32 %r7, %r7, 1;\n"
      "setp.gt.s32 %p1, %r7, 0;\n@%p1 bra again;\n";
  CHECK(fault_in(neighbours(often), 1, 32, kShared) == "");
  CHECK(fault_in(neighbours("bar.warp.sync -1;\n"), 1, 32, kShared) == "");
}

TEST_CASE("threads and blocks race in global memory") {
  CHECK(fault_in(kAddresses + "st.global.u64 [%rd1], 1;\nld.global.u64 %rd3, [%rd2];", 1, 64)
            .starts_with("a race"));
  CHECK(fault_in(kAddresses + "st.global.u64 [%rd1], 1;\nbar.sync 0;\nld.global.u64 %rd3, [%rd2];",
                 1, 64) == "");
  CHECK(fault_in(kAddresses + "st.global.u64 [%rd1], 1;", 2, 64).starts_with("a race: written"));
  CHECK(fault_in("mov.u32 %r1, 1;\natom.global.add.u32 %r2, [%base], %r1;", 4, 64) == "");
  // Strong accesses do not race with each other.
  for (const char* strong : {"volatile", "relaxed.sys", "relaxed.gpu"})
    CHECK(fault_in(std::string("st.") + strong + ".global.u64 [%base], 1;\nld." + strong +
                       ".global.u64 %rd1, [%base];",
                   4, 64) == "");
}

TEST_CASE("lanes at scattered addresses are judged one by one") {
  // Lane t loads the word at t * t: lane 16 is the first beyond 2,048 bytes.
  const std::string squares =
      "mov.u32 %r1, %tid.x;\nmul.lo.u32 %r2, %r1, %r1;\nmul.wide.u32 %rd1, %r2, 8;\n"
      "add.s64 %rd1, %base, %rd1;\nld.global.u64 %rd2, [%rd1];\n";
  CHECK(fault_in(squares, 1, 16) == "");
  CHECK(fault_in(squares, 1, 32).find("in no block of memory: thread (16, 0, 0)") !=
        std::string::npos);
  // %r5: the address of word 7 * t modulo 32.
  const std::string sevenths =
      kNeighbours + "mul.lo.u32 %r2, %r1, 7;\nand.b32 %r2, %r2, 31;\nshl.b32 %r5, %r2, 2;\n" +
      "add.s32 %r5, %r5, %r4;\n";
  const std::string sync = "bar.warp.sync -1;\n";
  const std::string load = "ld.shared.u32 %r6, [%r5];\n";
  CHECK(fault_in(sevenths + "st.shared.u32 [%r5], %r1;\n" + sync + "ld.shared.u32 %r6, [%r3];\n", 1,
                 32, kShared) == "");
  CHECK(fault_in(
            sevenths + "setp.ne.u32 %p1, %r1, 5;\n@%p1 st.shared.u32 [%r3], %r1;\n" + sync + load,
            1, 32, kShared)
            .starts_with("a read of bytes that nothing has written: thread (19, 0, 0)"));
  CHECK(fault_in(sevenths + "st.shared.u32 [%r3], %r1;\n" + load, 1, 32, kShared)
            .starts_with("a race: read here"));
  // One lane in the middle reads another one's word.
  CHECK(fault_in(kNeighbours + "st.shared.u32 [%r3], %r1;\nsetp.eq.u32 %p1, %r1, 16;\n" +
                     "selp.u32 %r2, 5, %r1, %p1;\nshl.b32 %r5, %r2, 2;\nadd.s32 %r5, %r5, %r4;\n" +
                     load,
                 1, 32, kShared)
            .find("thread (16, 0, 0)") != std::string::npos);
  CHECK(fault_in(kNeighbours +
                     "and.b32 %r2, %r1, 15;\nshl.b32 %r5, %r2, 2;\nadd.s32 %r5, %r5, %r4;\n" +
                     "st.shared.u32 [%r5], %r1;\n",
                 1, 32, kShared)
            .starts_with("a race: written here"));
}

TEST_CASE("ld.nc of what the same launch has written is a fault, also in the same thread") {
  const std::string store = "st.global.u32 [%base], 1;\n";
  CHECK(fault_in(store + "ld.global.u32 %r1, [%base];", 1, 1) == "");
  CHECK(fault_in(store + "ld.global.nc.u32 %r1, [%base];", 1, 1)
            .starts_with("ld.nc of bytes that the same launch has written"));
  CHECK(fault_in("ld.global.nc.u32 %r1, [%base];", 1, 1) == "");
}

TEST_CASE("bytes of one word are judged on their own, in global and in shared memory") {
  // Block b stores byte b of a word, or two bytes from there.
  const auto stores = [](const std::string& type) {
    return "mov.u32 %r1, %ctaid.x;\nmul.wide.u32 %rd1, %r1, " +
           std::string(type == "u8" ? "1" : "2") + ";\nadd.s64 %rd1, %base, %rd1;\n" +
           "mov.u16 %h1, 1;\nst.global." + type + " [%rd1], %h1;\n";
  };
  for (const std::uint64_t seed : {0, 1, 2, 3}) {
    CHECK(fault_in(stores("u8"), 4, 1, "", seed) == "");
    CHECK(fault_in(stores("u16"), 2, 1, "", seed) == "");
    // The neighbour's store does not hide the race of byte 0.
    CHECK(fault_in(stores("u8") + "ld.global.u8 %h2, [%base];", 2, 1, "", seed)
              .starts_with("a race"));
    CHECK(fault_in(stores("u8") + "ld.global.u32 %r2, [%base];", 4, 1, "", seed)
              .starts_with("a race"));
  }
  const std::string place =
      "mov.u32 %r1, %tid.x;\nmov.u32 %r4, tile;\nadd.s32 %r3, %r1, %r4;\nmov.u16 %h1, 1;\n";
  CHECK(fault_in(place + "st.shared.u8 [%r3], %h1;\nld.shared.u8 %h2, [%r3];", 1, 64, kShared) ==
        "");
  CHECK(fault_in(place + "st.shared.u8 [%r3], %h1;\nld.shared.u8 %h2, [tile];", 1, 64, kShared)
            .starts_with("a race"));
}

TEST_CASE("a store that releases orders what it follows, one that does not is a race") {
  // Block 0 writes and sets a flag; block 1 waits for the flag and reads.
  const auto handed_over = [](const std::string& store, const std::string& load) {
    const std::string body =
        "mov.u32 %r1, %ctaid.x;\nsetp.ne.u32 %p1, %r1, 0;\n@%p1 bra reader;\n"
        "st.global.u32 [%base+8], 5;\n" +
        store + " [%base], 1;\nbra end;\nreader:\n" + load +
        " %r2, [%base];\nsetp.eq.u32 %p2, %r2, 0;\n@%p2 bra reader;\n"
        "ld.global.u32 %r3, [%base+8];\nend:\n";
    try {
      run_kernel(kernel_text(body), Words(2), {2, 1, 0, true});
    } catch (const Fault& fault) {
      return std::string(fault.what());
    }
    return std::string();
  };
  CHECK(handed_over("st.release.gpu.global.u32", "ld.acquire.gpu.global.u32") == "");
  CHECK(handed_over("st.release.sys.global.u32", "ld.acquire.gpu.global.u32") == "");
  CHECK(handed_over("st.volatile.global.u32", "ld.volatile.global.u32") != "");
  CHECK(handed_over("st.relaxed.gpu.global.u32", "ld.acquire.gpu.global.u32") != "");
  CHECK(handed_over("st.release.gpu.global.u32", "ld.relaxed.gpu.global.u32") != "");
  CHECK(handed_over("st.global.u32", "ld.acquire.gpu.global.u32") != "");
  // A block is not all of its GPU.
  CHECK(handed_over("st.release.cta.global.u32", "ld.acquire.gpu.global.u32") != "");
  CHECK(handed_over("st.release.gpu.global.u32", "ld.acquire.cta.global.u32") != "");
}

TEST_CASE("between GPUs a release and an acquire need the scope of the system") {
  const auto strong = [](const char* store, const char* load) {
    return handed_over_between_gpus(store, load);
  };
  CHECK(strong("st.release.sys.global.u32", "ld.acquire.sys.global.u32") == "");
  CHECK(strong("st.release.gpu.global.u32", "ld.acquire.sys.global.u32") != "");
  CHECK(strong("st.release.sys.global.u32", "ld.acquire.gpu.global.u32") != "");
  CHECK(strong("st.release.gpu.global.u32", "ld.acquire.gpu.global.u32") != "");
  CHECK(strong("st.relaxed.sys.global.u32", "ld.acquire.sys.global.u32") != "");
  CHECK(strong("st.release.sys.global.u32", "ld.relaxed.sys.global.u32") != "");
}

}  // namespace ringlet::emulated

TEST_SUITE_END();
