// Each instruction against its definition in the PTX manual: rounding, NaN, denormals, shifts
// beyond the width. Bits in, bits out.
#include "one_instruction.h"

TEST_SUITE_BEGIN("host");

namespace ringlet::emulated {

TEST_CASE("integers wrap, and divide as GPUs do") {
  CHECK(run_same("add.s32", "s32", {0x7fffffff, 1}) == 0x80000000);
  CHECK(run_same("add.s16", "s16", {0x7fff, 1}) == 0x8000);
  CHECK(run_same("sub.s64", "s64", {0, 1}) == ~std::uint64_t{0});
  CHECK(run_same("mul.lo.s32", "s32", {0x10000, 0x10000}) == 0);
  CHECK(run_same("mul.hi.u32", "u32", {0xffffffff, 0xffffffff}) == 0xfffffffe);
  CHECK(run_same("mul.hi.u64", "u64", {~std::uint64_t{0}, 2}) == 1);
  CHECK(run("mul.wide.s32", {"s64", "s32", "s32"}, {0xffffffff, 2}) == ~std::uint64_t{1});
  CHECK(run("mul.wide.u32", {"u64", "u32", "u32"}, {0xffffffff, 2}) == 0x1fffffffe);
  CHECK(run_same("div.s32", "s32", {0x80000000, 0xffffffff}) == 0x80000000);
  CHECK(run_same("div.u32", "u32", {7, 0}) == 0xffffffff);
  CHECK(run_same("rem.s32", "s32", {0xfffffff9, 3}) == 0xffffffff);  // -7 = -2 * 3 - 1
  CHECK(run_same("abs.s64", "s64", {~std::uint64_t{0}}) == 1);
  CHECK(run_same("min.s32", "s32", {0xffffffff, 1}) == 0xffffffff);
  CHECK(run_same("min.u32", "u32", {0xffffffff, 1}) == 1);
}

TEST_CASE("shifts beyond the width") {
  CHECK(run_same("shl.b32", "b32", {1, 31}) == 0x80000000);
  CHECK(run_same("shl.b32", "b32", {1, 32}) == 0);
  CHECK(run_same("shr.u32", "u32", {0x80000000, 40}) == 0);
  CHECK(run_same("shr.s32", "s32", {0x80000000, 40}) == 0xffffffff);
  CHECK(run("shr.s64", {"s64", "s64", "u32"}, {std::uint64_t{1} << 63, 63}) == ~std::uint64_t{0});
  CHECK(run("shl.b64", {"b64", "b64", "u32"}, {1, 64}) == 0);
}

TEST_CASE("fields of bits") {
  CHECK(run_same("bfi.b32", "b32", {0xff, 0, 4, 8}) == 0xff0);
  CHECK(run_same("bfi.b32", "b32", {0xff, 0x12345678, 0, 32}) == 0xff);
  CHECK(run_same("bfi.b32", "b32", {0xff, 0x12345678, 40, 8}) == 0x12345678);
  CHECK(run_same("bfe.u32", "u32", {0x12345678, 8, 8}) == 0x56);
  CHECK(run_same("bfe.s32", "s32", {0x0000f000, 12, 4}) == 0xffffffff);
  CHECK(run_same("bmsk.clamp.b32", "b32", {4, 8}) == 0xff0);
  CHECK(run_same("prmt.b32", "b32", {0x33221100, 0x77665544, 0x7531}) == 0x77553311);
  CHECK(run_same("prmt.b32", "b32", {0x00008000, 0, 0x9999}) == 0xffffffff);  // the byte's sign
  CHECK(run_same("brev.b32", "b32", {1}) == 0x80000000);
  CHECK(run("clz.b64", {"u32", "b64"}, {1}) == 63);
  CHECK(run_same("bfind.shiftamt.u32", "u32", {1}) == 31);
  CHECK(run_same("bfind.u32", "u32", {0}) == 0xffffffff);
  CHECK(run_same("popc.b32", "b32", {0xf0f0}) == 8);
}

TEST_CASE("floats round to nearest even and keep denormals") {
  CHECK(run_same("add.rn.f32", "f32", {bits(1.0f), bits(0x1p-24f)}) == bits(1.0f));
  CHECK(run_same("add.rn.f32", "f32", {1, 1}) == 2);
  CHECK(run_same("mul.rn.f32", "f32", {kInf, 0}) == kCanonical);
  CHECK(run_same("fma.rn.f32", "f32",
                 {bits(0x1.000002p0f), bits(0x1.000002p0f), bits(-0x1.000004p0f)}) ==
        bits(0x1p-46f));  // one rounding
  CHECK(run_same("fma.rm.f32", "f32", {bits(1.0f), bits(1.0f), bits(-0x1p-30f)}) ==
        bits(0x1.fffffep-1f));
  CHECK(run_same("fma.rm.f32", "f32", {bits(1.0f), bits(1.0f), bits(0x1p-30f)}) == bits(1.0f));
  CHECK(run_same("div.rn.f64", "f64", {bits(1.0), bits(3.0)}) == bits(1.0 / 3.0));
  CHECK(run_same("sqrt.rn.f32", "f32", {bits(-1.0f)}) == kCanonical);
  CHECK(run_same("rcp.rn.f32", "f32", {kMinusZero}) == 0xff800000);
}

TEST_CASE("min and max ignore one NaN and order zeros") {
  CHECK(run_same("max.f32", "f32", {kNan, bits(1.0f)}) == bits(1.0f));
  CHECK(run_same("min.f32", "f32", {kNan, kNan}) == kCanonical);
  CHECK(run_same("max.f32", "f32", {kMinusZero, 0}) == 0);
  CHECK(run_same("min.f32", "f32", {0, kMinusZero}) == kMinusZero);
}

TEST_CASE("approximations flush denormals and are near") {
  CHECK(run_same("ex2.approx.ftz.f32", "f32", {bits(3.0f)}) == bits(8.0f));
  CHECK(run_same("ex2.approx.ftz.f32", "f32", {bits(-127.0f)}) == 0);
  CHECK(run_same("ex2.approx.ftz.f32", "f32", {0xff800000}) == 0);
  CHECK(run_same("rcp.approx.ftz.f32", "f32", {1}) == kInf);
  const double rough = std::bit_cast<double>(run_same("rcp.approx.ftz.f64", "f64", {bits(3.0)}));
  CHECK(rough == doctest::Approx(1 / 3.0).epsilon(0x1p-20));
}

TEST_CASE("conversions round, saturate and extend") {
  CHECK(run("cvt.rzi.s32.f32", {"s32", "f32"}, {bits(-2.7f)}) == 0xfffffffe);
  CHECK(run("cvt.rni.s32.f64", {"s32", "f64"}, {bits(2.5)}) == 2);
  CHECK(run("cvt.rzi.s32.f32", {"s32", "f32"}, {bits(3e9f)}) == 0x7fffffff);
  CHECK(run("cvt.rzi.u32.f32", {"u32", "f32"}, {bits(-1.0f)}) == 0);
  CHECK(run("cvt.rn.f32.f64", {"f32", "f64"}, {bits(1 + 0x1p-24)}) == bits(1.0f));
  CHECK(run("cvt.rn.f32.s64", {"f32", "s64"}, {0x1000001}) == bits(0x1p24f));
  CHECK(run("cvt.s64.s32", {"s64", "s32"}, {0x80000000}) == 0xffffffff80000000);
  CHECK(run("cvt.u64.u32", {"u64", "u32"}, {0x80000000}) == 0x80000000);
  CHECK(run("cvt.u16.u32", {"u16", "u32"}, {0x12345678}) == 0x5678);
  CHECK(run("cvt.sat.f32.f32", {"f32", "f32"}, {bits(1.5f)}) == bits(1.0f));
  CHECK(run("cvt.sat.f32.f32", {"f32", "f32"}, {kNan}) == 0);
  CHECK(run("cvt.rn.f16.f32", {"b16", "f32"}, {bits(65520.0f)}) == 0x7c00);
  CHECK(run("cvt.f32.f16", {"f32", "b16"}, {0x0001}) == bits(0x1p-24f));
}

TEST_CASE("a kernel's architecture is its module's target") {
  std::string text = kernel_text("");
  CHECK(Module(text).kernel("kernel").architecture == 90);
  text.replace(text.find("sm_90a"), 6, "sm_80");
  CHECK(Module(text).kernel("kernel").architecture == 80);
}

TEST_CASE("an unknown instruction is named") {
  const auto decode = [](const std::string& body) {
    Module module(kernel_text(body));
    module.kernel("kernel");
  };
  CHECK_THROWS_WITH(decode("tanh.approx.f32 %f1, %f2;"),
                    doctest::Contains("an instruction that is not known: tanh.approx.f32"));
  CHECK_THROWS_WITH(decode("atom.global.add.f32 %f1, [%base], %f2;"),
                    doctest::Contains("an instruction that is not known: atom.global.add.f32"));
  CHECK_THROWS_WITH(decode("add.s32 %r1, %r2, %rd1;"),
                    doctest::Contains("register %rd1 of 8 bytes, where 4 are needed"));
}

}  // namespace ringlet::emulated

TEST_SUITE_END();
