// The edges of the PTX manual's definitions, one row each: rounding, NaN, denormals, infinities,
// saturation, wide shifts and carries.
#include <cmath>
#include <limits>

#include "one_instruction.h"

TEST_SUITE_BEGIN("host");

namespace ringlet::emulated {
namespace {

using Types = std::vector<std::string>;

constexpr std::uint64_t kNan = 0x7fc00001, kCanonical = 0x7fffffff, kInf = 0x7f800000;
constexpr std::uint64_t kMinusInf = 0xff800000, kMinusZero = 0x80000000, kMost = 0x7f7fffff;
constexpr std::uint64_t kOnes = ~std::uint64_t{0}, kTop = std::uint64_t{1} << 63;
constexpr std::uint64_t kCanonical64 = kOnes >> 1, kInf64 = std::uint64_t{0x7ff} << 52;

struct Edge {
  const char* opcode;
  Types types;  // the result's first; one: of all operands
  Words in;
  std::uint64_t out;
};

void check(const std::vector<Edge>& edges) {
  for (const Edge& edge : edges) {
    const Types types =
        edge.types.size() > 1 ? edge.types : Types(edge.in.size() + 1, edge.types[0]);
    CAPTURE(edge.opcode);
    CAPTURE(edge.in);
    CHECK(run(edge.opcode, types, edge.in) == edge.out);
  }
}

}  // namespace

TEST_CASE("f32: ties to even, gradual underflow, overflow, signs of zero, NaN") {
  const Types t{"f32"};
  check({
      {"add.f32", t, {bits(1.0f), bits(0x3p-24f)}, bits(1 + 0x1p-22f)},
      {"add.f32", t, {kMost, bits(0x1p102f)}, kMost},
      {"add.f32", t, {kMost, bits(0x1p103f)}, kInf},
      {"add.f32", t, {kMinusZero, 0}, 0},
      {"add.f32", t, {kMinusZero, kMinusZero}, kMinusZero},
      {"add.f32", t, {kNan, bits(1.0f)}, kCanonical},
      {"sub.f32", t, {kInf, kInf}, kCanonical},
      {"sub.f32", t, {bits(5.0f), bits(5.0f)}, 0},
      {"sub.f32", t, {bits(0x1.000002p-126f), bits(0x1p-126f)}, 1},
      {"mul.f32", t, {bits(0x1p-100f), bits(0x1p-49f)}, 1},
      {"mul.f32", t, {bits(0x1p-100f), bits(0x1p-50f)}, 0},
      {"mul.f32", t, {bits(0x1p-100f), bits(0x1.8p-50f)}, 1},
      {"mul.f32", t, {kMinusZero, bits(3.0f)}, kMinusZero},
      {"fma.rn.f32", t, {0, kInf, bits(1.0f)}, kCanonical},
      {"fma.rn.f32", t, {kMost, bits(2.0f), bits(-0x1.fffffep127f)}, kMost},
      {"fma.rn.f32", t, {bits(-1.0f), bits(1.0f), bits(1.0f)}, 0},
      {"fma.rm.f32", t, {bits(-1.0f), bits(1.0f), bits(1.0f)}, kMinusZero},
      {"fma.rm.f32", t, {kMost, bits(2.0f), 0}, kMost},
      {"fma.rm.f32", t, {kMost, bits(-2.0f), 0}, kMinusInf},
      {"fma.rm.f32", t, {bits(0x1p-100f), bits(0x1p-100f), 0}, 0},
      {"fma.rm.f32", t, {bits(0x1p-100f), bits(-0x1p-100f), 0}, 0x80000001},
      {"div.rn.f32", t, {bits(1.0f), bits(3.0f)}, 0x3eaaaaab},
      {"div.rn.f32", t, {bits(-1.0f), 0}, kMinusInf},
      {"div.rn.f32", t, {0, 0}, kCanonical},
      {"div.rn.f32", t, {1, 2}, bits(0.5f)},
      {"div.rn.f32", t, {1, bits(2.0f)}, 0},
      {"sqrt.rn.f32", t, {kMinusZero}, kMinusZero},
      {"sqrt.rn.f32", t, {1}, bits(std::sqrt(0x1p-149f))},
      {"rcp.rn.f32", t, {1}, kInf},
      {"rcp.rn.f32", t, {bits(0x1p127f)}, 0x00400000},
      {"rcp.rn.f32", t, {kMinusInf}, kMinusZero},
      {"min.f32", t, {kMinusInf, kNan}, kMinusInf},
      {"max.f32", t, {kNan, kNan}, kCanonical},
      {"neg.f32", t, {0}, kMinusZero},
      {"abs.f32", t, {kMinusInf}, kInf},
      {"copysign.f32", t, {kMinusZero, bits(1.0f)}, bits(-1.0f)},
  });
}

TEST_CASE("f64 alike") {
  const Types t{"f64"};
  check({
      {"add.f64", t, {bits(1.0), bits(0x1p-53)}, bits(1.0)},
      {"add.f64", t, {bits(1.0), bits(0x3p-53)}, bits(1 + 0x1p-51)},
      {"mul.f64", t, {bits(0x1p-1000), bits(0x1p-74)}, 1},
      {"mul.f64", t, {kInf64, 0}, kCanonical64},
      {"fma.rn.f64", t, {bits(1 + 0x1p-52), bits(1 + 0x1p-52), bits(-1 - 0x1p-51)}, bits(0x1p-104)},
      {"div.rn.f64", t, {bits(1.0), kTop}, kTop | kInf64},
      {"sqrt.rn.f64", t, {bits(2.0)}, bits(std::sqrt(2.0))},
      {"rcp.rn.f64", t, {1}, kInf64},
      {"min.f64", t, {0, kTop}, kTop},
      {"max.f64", t, {kCanonical64, bits(-1.0)}, bits(-1.0)},
      {"neg.f64", t, {0}, kTop},
  });
}

TEST_CASE("approximations: .ftz flushes arguments and results to zeros of their sign") {
  const Types t{"f32"};
  check({
      {"ex2.approx.ftz.f32", t, {1}, bits(1.0f)},
      {"ex2.approx.ftz.f32", t, {bits(128.0f)}, kInf},
      {"ex2.approx.ftz.f32", t, {bits(-126.0f)}, bits(0x1p-126f)},
      {"ex2.approx.ftz.f32", t, {bits(-126.5f)}, 0},
      {"ex2.approx.ftz.f32", t, {kNan}, kCanonical},
      {"lg2.approx.f32", t, {bits(8.0f)}, bits(3.0f)},
      {"lg2.approx.f32", t, {kMinusZero}, kMinusInf},
      {"lg2.approx.f32", t, {bits(-1.0f)}, kCanonical},
      {"lg2.approx.f32", t, {1}, bits(-149.0f)},
      {"rcp.approx.ftz.f32", t, {kMinusZero}, kMinusInf},
      {"rcp.approx.ftz.f32", t, {0x80000001}, kMinusInf},
      {"rcp.approx.ftz.f32", t, {bits(-0x1p127f)}, kMinusZero},
      {"rcp.approx.ftz.f64", {"f64"}, {1}, kInf64},
      {"rcp.approx.ftz.f64", {"f64"}, {kTop | kInf64}, kTop},
  });
}

TEST_CASE("floats to integers: each rounding, each limit, NaN") {
  check({
      {"cvt.rni.s32.f32", {"s32", "f32"}, {bits(0.5f)}, 0},
      {"cvt.rni.s32.f32", {"s32", "f32"}, {bits(-1.5f)}, 0xfffffffe},
      {"cvt.rmi.s32.f32", {"s32", "f32"}, {bits(-1.1f)}, 0xfffffffe},
      {"cvt.rpi.s32.f32", {"s32", "f32"}, {bits(1.1f)}, 2},
      {"cvt.rzi.s32.f32", {"s32", "f32"}, {bits(-3e9f)}, 0x80000000},
      {"cvt.rzi.u32.f32", {"u32", "f32"}, {bits(5e9f)}, 0xffffffff},
      {"cvt.rzi.u32.f32", {"u32", "f32"}, {kNan}, 0},
      {"cvt.rzi.s64.f32", {"s64", "f32"}, {kInf}, kOnes >> 1},
      {"cvt.rzi.s64.f64", {"s64", "f64"}, {bits(-1e19)}, kTop},
      {"cvt.rzi.u64.f64", {"u64", "f64"}, {bits(2e19)}, kOnes},
      {"cvt.rzi.u64.f32", {"u64", "f32"}, {bits(-1.0f)}, 0},
      {"cvt.rni.f32.f32", {"f32"}, {bits(2.5f)}, bits(2.0f)},
      {"cvt.rzi.f32.f32", {"f32"}, {bits(-0.5f)}, kMinusZero},
      {"cvt.rmi.f64.f64", {"f64"}, {bits(-0.5)}, bits(-1.0)},
  });
}

TEST_CASE("to floats and between them") {
  check({
      {"cvt.rn.f32.s32", {"f32", "s32"}, {0x01000001}, bits(0x1p24f)},
      {"cvt.rn.f32.s32", {"f32", "s32"}, {0x01000003}, bits(0x1p24f + 4)},
      {"cvt.rn.f32.u32", {"f32", "u32"}, {0xffffffff}, bits(0x1p32f)},
      {"cvt.rn.f32.u64", {"f32", "u64"}, {kOnes}, bits(0x1p64f)},
      {"cvt.rn.f64.s64", {"f64", "s64"}, {(std::uint64_t{1} << 53) + 1}, bits(0x1p53)},
      {"cvt.rn.f32.f64", {"f32", "f64"}, {bits(1e300)}, kInf},
      {"cvt.rn.f32.f64", {"f32", "f64"}, {bits(0x1p-150)}, 0},
      {"cvt.rn.f32.f64", {"f32", "f64"}, {bits(0x1.8p-150)}, 1},
      {"cvt.f64.f32", {"f64", "f32"}, {1}, bits(0x1p-149)},
      {"cvt.rn.f16.f32", {"b16", "f32"}, {bits(65519.0f)}, 0x7bff},
      {"cvt.rn.f16.f32", {"b16", "f32"}, {bits(0x1p-25f)}, 0},
      {"cvt.rn.f16.f32", {"b16", "f32"}, {bits(0x1.8p-25f)}, 1},
      {"cvt.f32.f16", {"f32", "b16"}, {0xfc00}, kMinusInf},
      {"cvt.rn.bf16.f32", {"b16", "f32"}, {bits(1 + 0x1p-8f)}, 0x3f80},
      {"cvt.rn.bf16.f32", {"b16", "f32"}, {bits(1 + 0x3p-8f)}, 0x3f82},
      {"cvt.rn.bf16.f32", {"b16", "f32"}, {kMost}, 0x7f80},
      {"cvt.rn.bf16.f32", {"b16", "f32"}, {0x00010000}, 1},
      {"cvt.rn.bf16.f32", {"b16", "f32"}, {kNan}, 0x7fff},
      {"cvt.f32.bf16", {"f32", "b16"}, {0xc000}, bits(-2.0f)},
      {"cvt.rn.bf16x2.f32", {"b32", "f32", "f32"}, {bits(1.0f), bits(2.0f)}, 0x3f804000},
  });
}

TEST_CASE("integers at their limits") {
  check({
      {"mul.hi.s32", {"s32"}, {0xffffffff, 0xffffffff}, 0},
      {"mul.hi.s32", {"s32"}, {0x80000000, 0x80000000}, 0x40000000},
      {"mul.hi.s64", {"s64"}, {kTop, 2}, kOnes},
      {"mul.hi.s16", {"s16"}, {0x8000, 2}, 0xffff},
      {"mul.wide.s16", {"s32", "s16", "s16"}, {0x8000, 0x8000}, 0x40000000},
      {"mad.lo.s32", {"s32"}, {0x7fffffff, 2, 3}, 1},
      {"mad.wide.u32",
       {"u64", "u32", "u32", "u64"},
       {0xffffffff, 0xffffffff, kOnes},
       0xfffffffe00000000},
      {"div.s64", {"s64"}, {kTop, kOnes}, kTop},
      {"rem.s64", {"s64"}, {kTop, kOnes}, 0},
      {"rem.s32", {"s32"}, {7, 0xfffffffd}, 1},
      {"neg.s32", {"s32"}, {0x80000000}, 0x80000000},
      {"abs.s32", {"s32"}, {0x80000000}, 0x80000000},
      {"min.s16", {"s16"}, {0x8000, 0x7fff}, 0x8000},
      {"max.u64", {"u64"}, {kTop, kOnes >> 1}, kTop},
  });
}

TEST_CASE("shifts by the width and beyond it, funnels, fields") {
  const Types shift64{"b64", "b64", "u32"}, shift16{"b16", "b16", "u32"};
  check({
      {"shl.b32", {"b32"}, {1, 0xffffffff}, 0},
      {"shl.b64", shift64, {3, 63}, kTop},
      {"shl.b16", shift16, {1, 16}, 0},
      {"shr.b64", shift64, {kTop, 64}, 0},
      {"shr.s64", shift64, {kTop, 0xffffffff}, kOnes},
      {"shr.s16", shift16, {0x8000, 15}, 0xffff},
      {"shr.u16", shift16, {0x8000, 16}, 0},
      {"shf.l.wrap.b32", {"b32"}, {0x11111111, 0x22222222, 36}, 0x22222221},
      {"shf.l.clamp.b32", {"b32"}, {0x11111111, 0x22222222, 33}, 0x11111111},
      {"shf.r.wrap.b32", {"b32"}, {0x11111111, 0x22222222, 32}, 0x11111111},
      {"shf.r.clamp.b32", {"b32"}, {0x11111111, 0x22222222, 32}, 0x22222222},
      {"bfe.u32", {"u32"}, {0xffffffff, 28, 8}, 0xf},
      {"bfe.s32", {"s32"}, {0x80000000, 40, 3}, 0xffffffff},
      {"bfe.s32", {"s32"}, {0xffffffff, 3, 0}, 0},
      {"bfi.b32", {"b32"}, {0xff, 0, 28, 8}, 0xf0000000},
      {"bfi.b32", {"b32"}, {0xff, 0x1234, 4, 0}, 0x1234},
      {"bmsk.clamp.b32", {"b32"}, {28, 40}, 0xf0000000},
      {"bmsk.clamp.b32", {"b32"}, {32, 1}, 0},
      {"bfind.u32", {"u32"}, {0x80000000}, 31},
      {"clz.b32", {"b32"}, {0}, 32},
      {"popc.b64", {"u32", "b64"}, {kOnes}, 64},
  });
}

TEST_CASE("a borrow and the high half of a product go through three words") {
  const std::string body =
      "mov.u32 %r1, 0;\nmov.u32 %r2, 1;\nsub.cc.u32 %r3, %r1, %r2;\nsubc.cc.u32 %r4, %r1, %r1;\n"
      "subc.u32 %r5, %r2, %r1;\nmov.u32 %r6, -1;\nmad.lo.cc.u32 %r7, %r6, %r6, %r6;\n"
      "madc.hi.cc.u32 %r8, %r6, %r6, %r6;\naddc.u32 %r9, %r1, %r1;\n";
  std::string stores;
  for (int i = 3; i < 10; ++i)
    if (i != 6)
      stores +=
          "st.global.b32 [%base+" + std::to_string(8 * i) + "], %r" + std::to_string(i) + ";\n";
  const Words words = run_kernel(kernel_text(body + stores), Words(10), 1, 1);
  CHECK(words[3] == 0xffffffff);
  CHECK(words[4] == 0xffffffff);
  CHECK(words[5] == 0);
  // The product and two more addends: (2^32 - 1) 2^33.
  CHECK(words[7] == 0);
  CHECK(words[8] == 0xfffffffe);
  CHECK(words[9] == 1);
}

TEST_CASE("each conversion of integers extends by the source's sign and wraps to the result") {
  const std::vector<std::string> all{"s8", "u8", "s16", "u16", "s32", "u32", "s64", "u64"};
  const auto width = [](const std::string& type) { return std::stoul(type.substr(1)); };
  const auto cut = [](std::uint64_t value, std::size_t to) {
    return to == 64 ? value : value & ((std::uint64_t{1} << to) - 1);
  };
  // Registers are at least 16 bits wide; results of 8 bits are extended.
  const auto held = [&](const std::string& type) {
    return width(type) == 8 ? type.substr(0, 1) + "16" : type;
  };
  for (const std::string& from : all) {
    for (const std::string& to : all) {
      for (const std::uint64_t value : {0x00u, 0x7fu, 0x80u, 0xffu, 0x8000u, 0x80000000u}) {
        std::uint64_t whole = cut(value, width(from));
        const bool negative = from[0] == 's' && (whole >> (width(from) - 1) & 1) != 0;
        if (negative && width(from) < 64) whole |= kOnes << width(from);
        const std::string opcode = "cvt." + to + "." + from;
        CAPTURE(opcode);
        CAPTURE(value);
        const std::uint64_t found = run(opcode, {held(to), held(from)}, {value});
        CHECK(cut(found, width(to)) == cut(whole, width(to)));
      }
    }
  }
}

}  // namespace ringlet::emulated
