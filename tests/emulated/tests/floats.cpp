// Floats at the edges of the PTX manual's definitions, one row each: rounding, NaN, denormals,
// infinities, saturation.
#include <cmath>

#include "one_instruction.h"

TEST_SUITE_BEGIN("host");

namespace ringlet::emulated {

TEST_CASE("f32: ties to even, gradual underflow, overflow, signs of zero, NaN") {
  const Types t{"f32"};
  check({
      {"add.rn.f32", t, {bits(1.0f), bits(0x3p-24f)}, bits(1 + 0x1p-22f)},
      {"add.rn.f32", t, {kMost, bits(0x1p102f)}, kMost},
      {"add.rn.f32", t, {kMost, bits(0x1p103f)}, kInf},
      {"add.rn.f32", t, {kMinusZero, 0}, 0},
      {"add.rn.f32", t, {kMinusZero, kMinusZero}, kMinusZero},
      {"add.rn.f32", t, {kNan, bits(1.0f)}, kCanonical},
      {"add.rz.f32", t, {bits(1.0f), bits(0x3p-24f)}, bits(1 + 0x1p-23f)},
      {"add.rz.f32", t, {bits(-1.0f), bits(-0x3p-24f)}, bits(-1 - 0x1p-23f)},
      {"add.rz.f32", t, {kMost, bits(0x1p103f)}, kMost},
      {"add.rz.f32", t, {bits(5.0f), bits(-5.0f)}, 0},
      {"add.rz.f32", t, {kInf, kMinusInf}, kCanonical},
      {"sub.rn.f32", t, {kInf, kInf}, kCanonical},
      {"sub.rn.f32", t, {bits(5.0f), bits(5.0f)}, 0},
      {"sub.rn.f32", t, {bits(0x1.000002p-126f), bits(0x1p-126f)}, 1},
      {"mul.rn.f32", t, {bits(0x1p-100f), bits(0x1p-49f)}, 1},
      {"mul.rn.f32", t, {bits(0x1p-100f), bits(0x1p-50f)}, 0},
      {"mul.rn.f32", t, {bits(0x1p-100f), bits(0x1.8p-50f)}, 1},
      {"mul.rn.f32", t, {kMinusZero, bits(3.0f)}, kMinusZero},
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
      {"min.f32", t, {kMinusZero, 0}, kMinusZero},
      {"max.f32", t, {0, kMinusZero}, 0},
      {"max.f32", t, {kNan, kNan}, kCanonical},
      {"neg.f32", t, {0}, kMinusZero},
      {"abs.f32", t, {kMinusInf}, kInf},
      {"copysign.f32", t, {kMinusZero, bits(1.0f)}, bits(-1.0f)},
  });
}

TEST_CASE("f64 alike") {
  const Types t{"f64"};
  check({
      {"add.rn.f64", t, {bits(1.0), bits(0x1p-53)}, bits(1.0)},
      {"add.rn.f64", t, {bits(1.0), bits(0x3p-53)}, bits(1 + 0x1p-51)},
      {"mul.rn.f64", t, {bits(0x1p-1000), bits(0x1p-74)}, 1},
      {"mul.rn.f64", t, {kInf64, 0}, kCanonical64},
      {"fma.rn.f64", t, {bits(1 + 0x1p-52), bits(1 + 0x1p-52), bits(-1 - 0x1p-51)}, bits(0x1p-104)},
      {"add.rn.f64", t, {kTop, kTop}, kTop},
      {"sub.rn.f64", t, {kInf64, kInf64}, kCanonical64},
      {"sub.rn.f64", t, {bits(0x1.0000000000001p-1022), bits(0x1p-1022)}, 1},
      {"div.rn.f64", t, {bits(1.0), kTop}, kTop | kInf64},
      {"sqrt.rn.f64", t, {bits(2.0)}, bits(std::sqrt(2.0))},
      {"rcp.rn.f64", t, {1}, kInf64},
      {"min.f64", t, {0, kTop}, kTop},
      {"min.f64", t, {kTop, 0}, kTop},
      {"max.f64", t, {0, kTop}, 0},
      {"max.f64", t, {kTop, 0}, 0},
      {"max.f64", t, {kCanonical64, bits(-1.0)}, bits(-1.0)},
      {"neg.f64", t, {0}, kTop},
      {"abs.f64", t, {kTop | kInf64}, kInf64},
      {"copysign.f64", t, {kTop, bits(1.0)}, bits(-1.0)},
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

TEST_CASE("floats to integers: each rounding, each limit, NaN by the widths of both") {
  check({
      {"cvt.rni.s32.f32", {"s32", "f32"}, {bits(0.5f)}, 0},
      {"cvt.rni.s32.f32", {"s32", "f32"}, {bits(-1.5f)}, 0xfffffffe},
      {"cvt.rmi.s32.f32", {"s32", "f32"}, {bits(-1.1f)}, 0xfffffffe},
      {"cvt.rpi.s32.f32", {"s32", "f32"}, {bits(1.1f)}, 2},
      {"cvt.rzi.s32.f32", {"s32", "f32"}, {bits(-3e9f)}, 0x80000000},
      {"cvt.rzi.u32.f32", {"u32", "f32"}, {bits(5e9f)}, 0xffffffff},
      {"cvt.rzi.u32.f32", {"u32", "f32"}, {kNan}, 0},
      {"cvt.rzi.s32.f32", {"s32", "f32"}, {kNan}, 0},
      {"cvt.rzi.s32.f64", {"s32", "f64"}, {bits(-2.9)}, 0xfffffffe},
      {"cvt.rzi.s32.f64", {"s32", "f64"}, {bits(0x1p31)}, 0x7fffffff},
      {"cvt.rzi.s32.f64", {"s32", "f64"}, {kCanonical64}, 0x80000000},
      {"cvt.rni.s32.f64", {"s32", "f64"}, {bits(-3.5)}, 0xfffffffc},
      {"cvt.rzi.u32.f64", {"u32", "f64"}, {bits(4294967295.9)}, 0xffffffff},
      {"cvt.rzi.u32.f64", {"u32", "f64"}, {bits(-0.9)}, 0},
      {"cvt.rzi.u32.f64", {"u32", "f64"}, {kCanonical64}, 0x80000000},
      {"cvt.rzi.s64.f32", {"s64", "f32"}, {kInf}, kOnes >> 1},
      {"cvt.rzi.s64.f32", {"s64", "f32"}, {kNan}, kTop},
      {"cvt.rzi.s64.f64", {"s64", "f64"}, {kCanonical64}, kTop},
      {"cvt.rzi.s64.f64", {"s64", "f64"}, {bits(-1e19)}, kTop},
      {"cvt.rzi.u64.f64", {"u64", "f64"}, {bits(2e19)}, kOnes},
      {"cvt.rzi.u64.f32", {"u64", "f32"}, {bits(-1.0f)}, 0},
      {"cvt.rni.f32.f32", {"f32"}, {bits(2.5f)}, bits(2.0f)},
      {"cvt.rzi.f32.f32", {"f32"}, {bits(-0.5f)}, kMinusZero},
      {"cvt.rzi.f64.f64", {"f64"}, {bits(-0.9)}, kTop},
      {"cvt.rzi.f64.f64", {"f64"}, {bits(0x1p51 + 0.5)}, bits(0x1p51)},
      {"cvt.rzi.f64.f64", {"f64"}, {kTop | kInf64}, kTop | kInf64},
      {"cvt.rmi.f64.f64", {"f64"}, {bits(-0.5)}, bits(-1.0)},
  });
}

TEST_CASE("to floats and between them") {
  check({
      {"cvt.rn.f32.s32", {"f32", "s32"}, {0x01000001}, bits(0x1p24f)},
      {"cvt.rn.f32.s32", {"f32", "s32"}, {0x01000003}, bits(0x1p24f + 4)},
      {"cvt.rn.f32.u32", {"f32", "u32"}, {0xffffffff}, bits(0x1p32f)},
      {"cvt.rn.f32.u64", {"f32", "u64"}, {kOnes}, bits(0x1p64f)},
      {"cvt.rn.f32.u16", {"f32", "u16"}, {0xffff}, bits(65535.0f)},
      {"cvt.rn.f64.u16", {"f64", "u16"}, {0xffff}, bits(65535.0)},
      {"cvt.rn.f64.s32", {"f64", "s32"}, {0x80000000}, bits(-0x1p31)},
      {"cvt.rn.f64.u32", {"f64", "u32"}, {0xffffffff}, bits(0x1p32 - 1)},
      {"cvt.rn.f64.s64", {"f64", "s64"}, {(std::uint64_t{1} << 53) + 1}, bits(0x1p53)},
      {"cvt.rn.f32.f64", {"f32", "f64"}, {bits(1e300)}, kInf},
      {"cvt.rn.f32.f64", {"f32", "f64"}, {bits(0x1p-150)}, 0},
      {"cvt.rn.f32.f64", {"f32", "f64"}, {bits(0x1.8p-150)}, 1},
      {"cvt.f64.f32", {"f64", "f32"}, {1}, bits(0x1p-149)},
      {"cvt.rn.f16.f32", {"b16", "f32"}, {bits(65519.0f)}, 0x7bff},
      {"cvt.rn.f16.f32", {"b16", "f32"}, {bits(0x1p-25f)}, 0},
      {"cvt.rn.f16.f32", {"b16", "f32"}, {bits(0x1.8p-25f)}, 1},
      {"cvt.rn.f16.f32", {"b16", "f32"}, {kNan}, 0x7fff},
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

}  // namespace ringlet::emulated

TEST_SUITE_END();
