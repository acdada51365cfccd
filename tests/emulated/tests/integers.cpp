// Integers at the edges of the PTX manual's definitions, one row each: limits, wide shifts, fields,
// carries.
#include "one_instruction.h"

TEST_SUITE_BEGIN("host");

namespace ringlet::emulated {

TEST_CASE("integers at their limits") {
  check({
      {"add.u32", {"u32"}, {0xffffffff, 3}, 2},
      {"add.s64", {"s64"}, {kTop, kTop}, 0},
      {"add.u64", {"u64"}, {kOnes, 2}, 1},
      {"sub.s16", {"s16"}, {0x8000, 1}, 0x7fff},
      {"sub.s32", {"s32"}, {0x80000000, 1}, 0x7fffffff},
      {"sub.s64", {"s64"}, {5, 7}, kOnes - 1},
      {"mul.lo.s16", {"s16"}, {0x7fff, 0x7fff}, 1},
      {"mul.lo.s32", {"s32"}, {7, 0xfffffffd}, 0xffffffeb},
      {"mul.lo.u32", {"u32"}, {0xffffffff, 0xffffffff}, 1},
      {"mul.lo.s64", {"s64"}, {kTop | 3, 5}, kTop | 15},
      {"mul.hi.s32", {"s32"}, {0xffffffff, 0xffffffff}, 0},
      {"mul.hi.s32", {"s32"}, {0x80000000, 0x80000000}, 0x40000000},
      {"mul.hi.s64", {"s64"}, {kTop, 2}, kOnes},
      {"mul.hi.s16", {"s16"}, {0x8000, 2}, 0xffff},
      {"mul.wide.s16", {"s32", "s16", "s16"}, {0x8000, 0x8000}, 0x40000000},
      {"mul.wide.u16", {"u32", "u16", "u16"}, {0xffff, 0xffff}, 0xfffe0001},
      {"mad.lo.s32", {"s32"}, {0x7fffffff, 2, 3}, 1},
      // -1 * 2 + 3, with all 64 bits of the product's sign
      {"mad.wide.s32", {"s64", "s32", "s32", "s64"}, {0xffffffff, 2, 3}, 1},
      {"mad.wide.s32",
       {"s64", "s32", "s32", "s64"},
       {0x80000000, 0x7fffffff, 0},
       0xc000000080000000},
      {"mad.wide.u32",
       {"u64", "u32", "u32", "u64"},
       {0xffffffff, 0xffffffff, kOnes},
       0xfffffffe00000000},
      {"div.s64", {"s64"}, {kTop, kOnes}, kTop},
      {"div.s32", {"s32"}, {0xfffffff9, 2}, 0xfffffffd},
      {"div.s64", {"s64"}, {kOnes - 6, 2}, kOnes - 2},
      {"div.u32", {"u32"}, {0xfffffff9, 2}, 0x7ffffffc},
      {"div.u64", {"u64"}, {kOnes, kTop}, 1},
      {"rem.u32", {"u32"}, {0xffffffff, 16}, 15},
      {"rem.s64", {"s64"}, {kTop, kOnes}, 0},
      {"rem.s64", {"s64"}, {kOnes - 6, 4}, kOnes - 2},
      {"rem.s32", {"s32"}, {7, 0xfffffffd}, 1},
      {"neg.s32", {"s32"}, {0x80000000}, 0x80000000},
      {"neg.s32", {"s32"}, {5}, 0xfffffffb},
      {"neg.s64", {"s64"}, {kTop}, kTop},
      {"neg.s64", {"s64"}, {1}, kOnes},
      {"abs.s32", {"s32"}, {0x80000000}, 0x80000000},
      {"min.s16", {"s16"}, {0x8000, 0x7fff}, 0x8000},
      {"min.u16", {"u16"}, {0x8000, 0x7fff}, 0x7fff},
      {"min.s32", {"s32"}, {1, 0xfffffffe}, 0xfffffffe},
      {"min.s64", {"s64"}, {0, kTop}, kTop},
      {"max.u16", {"u16"}, {0x7fff, 0x8000}, 0x8000},
      {"max.s32", {"s32"}, {0x80000000, 0xfffffffe}, 0xfffffffe},
      {"max.u32", {"u32"}, {1, 0x80000000}, 0x80000000},
      {"max.s64", {"s64"}, {kTop, 5}, 5},
      {"max.u64", {"u64"}, {kTop, kOnes >> 1}, kTop},
  });
}

TEST_CASE("logic on every bit of each width") {
  check({
      {"and.b16", {"b16"}, {0xff0f, 0x8bcd}, 0x8b0d},
      {"and.b32", {"b32"}, {0xffff0000, 0x89abcdef}, 0x89ab0000},
      {"and.b64", {"b64"}, {kTop | 6, kTop | 3}, kTop | 2},
      {"or.b32", {"b32"}, {0x80000000, 1}, 0x80000001},
      {"or.b64", {"b64"}, {kTop, 1}, kTop | 1},
      {"xor.b16", {"b16"}, {0xffff, 0x8001}, 0x7ffe},
      {"xor.b32", {"b32"}, {0xffffffff, 0x80000001}, 0x7ffffffe},
      {"not.b32", {"b32"}, {0x80000001}, 0x7ffffffe},
      {"not.b64", {"b64"}, {1}, kOnes - 1},
  });
}

TEST_CASE("shifts by the width and beyond it, funnels, fields") {
  const Types shift64{"b64", "b64", "u32"}, shift16{"b16", "b16", "u32"};
  check({
      {"shl.b32", {"b32"}, {1, 0xffffffff}, 0},
      {"shl.b64", shift64, {3, 63}, kTop},
      {"shl.b16", shift16, {1, 16}, 0},
      {"shr.b32", {"b32"}, {0x80000000, 31}, 1},
      {"shr.u16", shift16, {0x8000, 15}, 1},
      {"shr.u32", {"u32"}, {0x80000000, 30}, 2},
      {"shr.s32", {"s32"}, {0x80000000, 4}, 0xf8000000},
      {"shr.s64", shift64, {kTop, 4}, 0xf800000000000000},
      {"shr.u64", shift64, {kTop, 63}, 1},
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
      {"bfi.b64", {"b64", "b64", "b64", "u32"}, {0xff, 1, 60, 8}, 0xf000000000000001},
      {"bfi.b64", {"b64", "b64", "b64", "u32"}, {0xff, 7, 64, 8}, 7},
      {"bmsk.clamp.b32", {"b32"}, {28, 40}, 0xf0000000},
      {"bmsk.clamp.b32", {"b32"}, {32, 1}, 0},
      {"bfind.u32", {"u32"}, {0x80000000}, 31},
      {"clz.b32", {"b32"}, {0}, 32},
      {"popc.b64", {"u32", "b64"}, {kOnes}, 64},
  });
}

TEST_CASE("carries and borrows go from instruction to instruction") {
  struct Row {
    const char* body;
    Words out;  // %r1 to %r4
  };
  const std::vector<Row> rows{
      {"add.cc.u32 %r1, -1, 3;\naddc.cc.u32 %r2, -1, 5;\naddc.u32 %r3, 5, 6;", {2, 5, 12, 0}},
      {"add.cc.u32 %r1, 1, 2;\naddc.u32 %r2, 0, 0;", {3, 0, 0, 0}},
      {"sub.cc.u32 %r1, 0, 1;\nsubc.cc.u32 %r2, 0, 0;\nsubc.u32 %r3, 1, 0;",
       {0xffffffff, 0xffffffff, 0, 0}},
      {"sub.cc.u32 %r1, 0, 1;\nsubc.cc.u32 %r2, 7, 2;\nsubc.u32 %r3, 1, 0;", {0xffffffff, 4, 1, 0}},
      {"sub.cc.u32 %r1, 1, -1;\nsubc.u32 %r2, 0, 0;", {2, 0xffffffff, 0, 0}},
      {"sub.cc.u32 %r1, 2, 1;\nsubc.u32 %r2, 0, 0;", {1, 0, 0, 0}},
      // The product and two more addends: (2^32 - 1) 2^33.
      {"mad.lo.cc.u32 %r1, -1, -1, -1;\nmadc.hi.cc.u32 %r2, -1, -1, -1;\naddc.u32 %r3, 0, 0;",
       {0, 0xfffffffe, 1, 0}},
      {"add.cc.u32 %r1, -1, 1;\nmadc.lo.cc.u32 %r2, -1, 1, 5;\naddc.u32 %r3, 0, 0;", {0, 5, 1, 0}},
      // (2^64 - 1)^2 = 2^128 - 2^65 + 1
      {"mov.u32 %r5, -1;\nmul.lo.u32 %r1, %r5, %r5;\nmul.hi.u32 %r2, %r5, %r5;\n"
       "mad.lo.cc.u32 %r2, %r5, %r5, %r2;\nmadc.hi.u32 %r3, %r5, %r5, 0;\n"
       "mad.lo.cc.u32 %r2, %r5, %r5, %r2;\nmadc.hi.cc.u32 %r3, %r5, %r5, %r3;\n"
       "addc.u32 %r4, 0, 0;\nmad.lo.cc.u32 %r3, %r5, %r5, %r3;\n"
       "madc.hi.u32 %r4, %r5, %r5, %r4;",
       {1, 0, 0xfffffffe, 0xffffffff}}};
  for (const auto& [body, out] : rows) {
    CAPTURE(body);
    const std::string store =
        "\nst.global.v2.u64 [%base], {%rd1, %rd2};\n"
        "st.global.v2.u64 [%base+16], {%rd3, %rd4};";
    std::string text = "mov.u32 %r3, 0;\nmov.u32 %r4, 0;\n" + std::string(body);
    for (const char* i : {"1", "2", "3", "4"})
      text += std::string("\ncvt.u64.u32 %rd") + i + ", %r" + i + ';';
    CHECK(run_kernel(kernel_text(text + store), Words(4), {1, 1}) == out);
  }
}

TEST_CASE("each conversion of integers extends by the source's sign and wraps to the result") {
  const std::vector<std::string> all{"s8", "u8", "s16", "u16", "s32", "u32", "s64", "u64"};
  const auto width = [](const std::string& type) { return std::stoul(type.substr(1)); };
  const auto cut = [](std::uint64_t value, std::size_t to) {
    return to == 64 ? value : value & ((std::uint64_t{1} << to) - 1);
  };
  // Registers are at least 16 bits wide; results of 8 bits are extended to them.
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
        std::uint64_t expected = cut(whole, width(to));
        if (to == "s8" && (expected & 0x80) != 0) expected |= 0xff00;
        CHECK(run(opcode, {held(to), held(from)}, {value}) == expected);
      }
    }
  }
}

}  // namespace ringlet::emulated

TEST_SUITE_END();
