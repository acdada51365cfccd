// Moves: bits, halves, special registers, addresses, and parameters of calls.
#include "one_instruction.h"

TEST_SUITE_BEGIN("host");

namespace ringlet::emulated {

TEST_CASE("mov copies bits, also of a signalling NaN") {
  check({{"mov.b16", {"b16"}, {0xfedc}, 0xfedc},
         {"mov.u16", {"u16"}, {0x8001}, 0x8001},
         {"mov.b32", {"b32"}, {0xfedcba98}, 0xfedcba98},
         {"mov.s32", {"s32"}, {0x80000000}, 0x80000000},
         {"mov.f32", {"f32"}, {0x7f800001}, 0x7f800001},
         {"mov.b64", {"b64"}, {kTop | 1}, kTop | 1},
         {"mov.u64", {"u64"}, {kOnes - 1}, kOnes - 1},
         {"mov.f64", {"f64"}, {kInf64 | 1}, kInf64 | 1}});
}

TEST_CASE("mov packs the low half first, and unpacks") {
  const std::string body =
      "ld.global.b64 %rd1, [%base];\nmov.b64 {%r1, %r2}, %rd1;\nmov.b64 %rd2, {%r2, %r1};\n"
      "mov.b32 {%h1, %h2}, %r1;\nmov.b32 %r3, {%h2, %h1};\nmov.b64 {_, %r4}, %rd1;\n"
      "st.global.b64 [%base+8], %rd2;\nst.global.b32 [%base+16], %r3;\n"
      "st.global.b32 [%base+24], %r4;\n";
  const Words words = run_kernel(kernel_text(body), {0x1122334455667788, 0, 0, 0}, {1, 1});
  CHECK(words == Words{0x1122334455667788, 0x5566778811223344, 0x77885566, 0x11223344});
}

TEST_CASE("special registers of threads in three dimensions") {
  // Each thread writes a row of 16 words.
  std::string body =
      "mov.u32 %r1, %ctaid.z;\nmov.u32 %r2, %nctaid.y;\nmov.u32 %r3, %ctaid.y;\n"
      "mad.lo.s32 %r1, %r1, %r2, %r3;\nmov.u32 %r2, %nctaid.x;\nmov.u32 %r3, %ctaid.x;\n"
      "mad.lo.s32 %r1, %r1, %r2, %r3;\nmov.u32 %r2, %ntid.z;\nmov.u32 %r3, %tid.z;\n"
      "mad.lo.s32 %r1, %r1, %r2, %r3;\nmov.u32 %r2, %ntid.y;\nmov.u32 %r3, %tid.y;\n"
      "mad.lo.s32 %r1, %r1, %r2, %r3;\nmov.u32 %r2, %ntid.x;\nmov.u32 %r3, %tid.x;\n"
      "mad.lo.s32 %r1, %r1, %r2, %r3;\nmul.wide.u32 %rd1, %r1, 128;\nadd.s64 %rd1, %base, %rd1;\n";
  const std::vector<std::string> names{"tid.x",   "tid.y",       "tid.z",      "ntid.x",
                                       "ntid.y",  "ntid.z",      "ctaid.x",    "ctaid.y",
                                       "ctaid.z", "nctaid.x",    "nctaid.y",   "nctaid.z",
                                       "laneid",  "lanemask_le", "lanemask_lt"};
  for (std::size_t i = 0; i < names.size(); ++i)
    body += "mov.u32 %r4, %" + names[i] + ";\nst.global.b32 [%rd1+" + std::to_string(8 * i) +
            "], %r4;\n";
  const std::uint64_t x = 5, y = 4, z = 2, blocks_x = 3, blocks_y = 2, blocks_z = 2;
  const Words words =
      run_kernel(kernel_text(body), Words(x * y * z * 12 * 16), {{3, 2, 2}, {5, 4, 2}});
  for (std::uint64_t row = 0; row < words.size() / 16; ++row) {
    const std::uint64_t thread = row % (x * y * z), block = row / (x * y * z), lane = thread % 32;
    const std::uint64_t below = (std::uint64_t{1} << lane) - 1;
    CHECK(Words(words.begin() + static_cast<std::ptrdiff_t>(16 * row),
                words.begin() + static_cast<std::ptrdiff_t>(16 * row + 15)) ==
          Words{thread % x, thread / x % y, thread / x / y, x, y, z, block % blocks_x,
                block / blocks_x % blocks_y, block / blocks_x / blocks_y, blocks_x, blocks_y,
                blocks_z, lane, 2 * below + 1, below});
  }
}

TEST_CASE("an address converts to global memory's; the timer does not run backwards") {
  const std::string body =
      "cvta.to.global.u64 %rd1, %base;\nld.global.u64 %rd2, [%rd1+8];\n"
      "mov.u64 %rd3, %globaltimer;\nnanosleep.u32 100;\nmov.u64 %rd4, %globaltimer;\n"
      "setp.le.u64 %p1, %rd3, %rd4;\nselp.b64 %rd5, %rd2, 0, %p1;\nst.global.u64 [%rd1], %rd5;\n";
  CHECK(run_kernel(kernel_text(body), {0, kTop | 7}, {1, 1})[0] == (kTop | 7));
}

TEST_CASE("a call passes parameters and returns, each lane when it does") {
  const std::string scaled =
      ".func (.param .b64 result) scaled(.param .b64 of, .param .b32 by)\n{\n"
      ".reg .pred %p<2>;\n.reg .b32 %r<2>;\n.reg .f64 %d<3>;\n"
      "ld.param.b32 %r1, [by];\nsetp.lt.s32 %p1, %r1, 0;\nst.param.f64 [result], "
      "0d0000000000000000;\n"
      "@%p1 ret;\nld.param.f64 %d1, [of];\ncvt.rn.f64.s32 %d2, %r1;\nmul.rn.f64 %d1, %d1, %d2;\n"
      "st.param.f64 [result+0], %d1;\nret;\n}\n";
  // Lane t: 1.5 * (t - 3), or 0 if that is negative.
  const std::string body =
      "mov.u32 %r1, %tid.x;\nsub.s32 %r2, %r1, 3;\nmov.f64 %d1, 0d3ff8000000000000;\n{\n"
      ".param .b64 param0;\nst.param.f64 [param0+0], %d1;\n.param .b32 param1;\n"
      "st.param.b32 [param1+0], %r2;\n.param .b64 retval0;\n"
      "call.uni (retval0), scaled, (param0, param1);\nld.param.f64 %d2, [retval0+0];\n}\n"
      "mul.wide.u32 %rd1, %r1, 8;\nadd.s64 %rd1, %base, %rd1;\nst.global.f64 [%rd1], %d2;\n";
  const Words words = run_kernel(kernel_text(body, scaled), Words(32), {1, 32});
  for (std::size_t lane = 0; lane < 32; ++lane)
    CHECK(words[lane] == bits(lane < 3 ? 0.0 : 1.5 * static_cast<double>(lane - 3)));
}

TEST_CASE("lanes that exit do nothing more") {
  const std::string body =
      "mov.u32 %r1, %tid.x;\nsetp.ge.u32 %p1, %r1, 5;\n@%p1 exit;\nmul.wide.u32 %rd1, %r1, 8;\n"
      "add.s64 %rd1, %base, %rd1;\nst.global.u64 [%rd1], 1;\nexit;\n";
  const Words words = run_kernel(kernel_text(body), Words(8), {1, 8});
  CHECK(words == Words{1, 1, 1, 1, 1, 0, 0, 0});
}

}  // namespace ringlet::emulated

TEST_SUITE_END();
