// Loads, stores and atomics: widths, signs, vectors and spaces (PTX manual, 9.7.9 and 9.7.13).
#include <algorithm>
#include <numeric>

#include "one_instruction.h"

TEST_SUITE_BEGIN("host");

namespace ringlet::emulated {
namespace {

/// Memory of 16 bytes, and the loads and stores that reach it.
struct Place {
  std::string space, address;
  std::vector<std::string> loads, stores;
};
const std::vector<Place> kPlaces{
    {"global",
     "%base",
     {"ld.global", "ld.global.nc", "ld.global.cg", "ld.volatile.global", "ld.relaxed.sys.global",
      "ld.acquire.gpu.global", "ld.acquire.sys.global"},
     {"st.global", "st.global.cg", "st.volatile.global", "st.relaxed.sys.global",
      "st.release.gpu.global", "st.release.sys.global"}},
    {"shared", "tile", {"ld.shared"}, {"st.shared"}},
    {"local", "depot", {"ld.local"}, {"st.local"}}};
const std::string kTile = ".shared .align 16 .b8 tile[16];\n";
const std::string kDepot = ".local .align 16 .b8 depot[16];\n";
const Words kPattern{0x8182838485868788, 0x91929394959697f8};

/// A scalar or a vector access of some bytes, at an offset in a place.
struct Shape {
  std::string type;
  std::size_t bytes, count, offset;

  std::string operator()(const std::string& opcode) const {
    return opcode + (count == 1 ? "." : ".v" + std::to_string(count) + '.') + type + ' ';
  }
  std::string registers() const {
    return count == 1 ? "%rd1" : count == 2 ? "{%rd1, %rd2}" : "{%rd1, %rd2, %rd3, %rd4}";
  }
  std::string in(const std::string& address) const {
    return '[' + address + '+' + std::to_string(offset) + ']';
  }
};

std::vector<Shape> shapes(std::size_t room) {
  std::vector<Shape> all;
  for (const char* type : {"u8", "s8", "u16", "s16", "b32", "s32", "b64"})
    for (const std::size_t count : {1, 2, 4})
      if (const std::size_t bytes = std::stoul(type + 1) / 8; bytes * count <= room)
        for (const std::size_t offset : {std::size_t{0}, room - bytes * count})
          all.push_back({type, bytes, count, offset});
  return all;
}

std::uint64_t element(const Words& from, const Shape& shape, std::size_t i) {
  const std::size_t byte = shape.offset + i * shape.bytes;
  const std::uint64_t whole = from[byte / 8] >> byte % 8 * 8;
  if (shape.bytes == 8) return whole;
  const std::uint64_t top = std::uint64_t{1} << (8 * shape.bytes - 1), low = whole & (2 * top - 1);
  return shape.type[0] == 's' && (low & top) != 0 ? low - 2 * top : low;
}

/// Copies 16 bytes between the place and words 0 and 1.
std::string copy(const std::string& from, const std::string& from_address, const std::string& to,
                 const std::string& to_address) {
  return "ld." + from + ".v2.u64 {%rd8, %rd9}, [" + from_address + "];\nst." + to + ".v2.u64 [" +
         to_address + "], {%rd8, %rd9};\n";
}

const std::string kStoreRegisters =
    "st.global.v2.u64 [%base+16], {%rd1, %rd2};\nst.global.v2.u64 [%base+32], {%rd3, %rd4};\n";
const std::string kLoadRegisters =
    "ld.global.v2.u64 {%rd1, %rd2}, [%base+16];\nld.global.v2.u64 {%rd3, %rd4}, [%base+32];\n";

void check_load(const std::string& load, const std::string& address, const std::string& setup,
                const Shape& shape) {
  CAPTURE(shape(load) + shape.in(address));
  const std::string text = kDepot + setup + shape(load) + shape.registers() + ", " +
                           shape.in(address) + ";\n" + kStoreRegisters;
  const Words words =
      run_kernel(kernel_text(text, kTile), {kPattern[0], kPattern[1], 0, 0, 0, 0}, {1, 1});
  for (std::size_t i = 0; i < shape.count; ++i) CHECK(words[2 + i] == element(words, shape, i));
}

void check_store(const std::string& store, const Place& place, const std::string& copy_in,
                 const std::string& copy_out, const Shape& shape) {
  CAPTURE(shape(store) + shape.in(place.address));
  const std::string text = kDepot + copy_in + kLoadRegisters + shape(store) +
                           shape.in(place.address) + ", " + shape.registers() + ";\n" + copy_out;
  const Words values{0xa1a2a3a4a5a6a7a8, 0xb1b2b3b4b5b6b7b8, 0xc1c2c3c4c5c6c7c8,
                     0xd1d2d3d4d5d6d7d8};
  Words words = kPattern, out = kPattern;
  words.insert(words.end(), values.begin(), values.end());
  for (std::size_t i = 0; i < shape.count; ++i)
    std::memcpy(reinterpret_cast<std::byte*>(out.data()) + shape.offset + i * shape.bytes,
                &values[i], shape.bytes);
  words = run_kernel(kernel_text(text, kTile), words, {1, 1});
  CHECK(Words(words.begin(), words.begin() + 2) == out);
}

}  // namespace

TEST_CASE("loads extend by their type, stores write no neighbour, vectors are contiguous") {
  for (const Place& place : kPlaces) {
    const bool is_global = place.space == "global";
    const std::string in = is_global ? "" : copy("global", "%base", place.space, place.address);
    const std::string out = is_global ? "" : copy(place.space, place.address, "global", "%base");
    for (const Shape& shape : shapes(16)) {
      for (const std::string& load : place.loads) check_load(load, place.address, in, shape);
      for (const std::string& store : place.stores) check_store(store, place, in, out, shape);
    }
  }
}

TEST_CASE("loads of a parameter") {
  // The parameter is %base.
  for (const Shape& shape : shapes(8))
    check_load("ld.param", "memory", "st.global.u64 [%base], %base;\n", shape);
}

TEST_CASE("a store and a load of registers that hold floats") {
  const std::string body =
      "ld.global.v2.f32 {%f1, %f2}, [%base];\nst.global.v2.f32 [%base+8], {%f2, %f1};\n"
      "ld.global.f64 %d1, [%base+8];\nst.volatile.global.f64 [%base+16], %d1;\nmembar.cta;\n"
      "ld.volatile.global.f64 %d2, [%base+16];\nst.global.f64 [%base], %d2;\n";
  CHECK(run_kernel(kernel_text(body), {0x7f80000100000002, 0, 0}, {1, 1})[0] == 0x000000027f800001);
}

TEST_CASE("atomics return the earlier value, and lose none of many threads'") {
  constexpr std::uint32_t kThreads = 72;
  // Thread t adds 3 or exchanges t in word 0, and writes what it got to word 1 + t.
  const auto results = [](const std::string& atomic, std::uint64_t seed) {
    const std::string body =
        "mov.u32 %r1, %tid.x;\nmov.u32 %r3, 3;\nmov.u32 %r4, tile;\nld.global.u32 %r5, [%base];\n"
        "setp.eq.u32 %p1, %r1, 0;\n@%p1 st.shared.u32 [%r4], %r5;\nbar.sync 0;\n" +
        atomic +
        "bar.sync 0;\nmul.wide.u32 %rd1, %r1, 8;\nadd.s64 %rd1, %base, %rd1;\n"
        "st.global.u32 [%rd1+8], %r2;\n";
    Words words(kThreads + 1);
    words[0] = 0xffffffff;
    words = run_kernel(kernel_text(body, kTile), words, {1, kThreads}, seed);
    std::sort(words.begin() + 1, words.end());
    return words;
  };
  for (const std::uint64_t seed : {0, 1, 2}) {
    Words sums(kThreads);  // 2^32 - 1 + 3 t modulo 2^32
    for (std::uint32_t t = 0; t < kThreads; ++t) sums[t] = std::uint32_t{3 * t - 1};
    std::sort(sums.begin(), sums.end());
    const Words shared = results("atom.shared.add.u32 %r2, [%r4], %r3;\n", seed);
    CHECK(Words(shared.begin() + 1, shared.end()) == sums);
    const Words global = results("atom.global.add.u32 %r2, [%base], %r3;\n", seed);
    CHECK(Words(global.begin() + 1, global.end()) == sums);
    CHECK(global[0] == 3 * kThreads - 1);
    // All values but the last, which stays.
    Words exchanged = results("atom.global.exch.b32 %r2, [%base], %r1;\n", seed), all(kThreads + 1);
    std::iota(all.begin(), all.end() - 1, 0);
    all.back() = 0xffffffff;
    std::sort(exchanged.begin(), exchanged.end());
    CHECK(exchanged == all);
  }
}

}  // namespace ringlet::emulated

TEST_SUITE_END();
