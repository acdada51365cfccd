// One instruction, run by one thread: bits in, bits out.
#pragma once

#include <bit>

#include "kernel_text.h"

namespace ringlet::emulated {

inline std::uint64_t bits(float value) { return std::bit_cast<std::uint32_t>(value); }
inline std::uint64_t bits(double value) { return std::bit_cast<std::uint64_t>(value); }

inline char width_of(const std::string& type) {
  if (type == "pred") return 'p';
  if (type.ends_with("64")) return type[0] == 'f' ? 'd' : 'D';
  if (type.ends_with("16")) return 'h';
  return type[0] == 'f' && type != "f16" ? 'f' : 'r';
}

inline std::string register_of(const std::string& type, std::size_t number) {
  const char width = width_of(type);
  const std::string name = width == 'D' ? "rd" : std::string(1, width);
  return '%' + name + std::to_string(number);
}

inline std::string bits_type(const std::string& type) {
  const char width = width_of(type);
  return width == 'd' || width == 'D' ? "b64" : width == 'h' ? "b16" : "b32";
}

/// The bits of `opcode result, in...`, the same in a warp of 1, 20 and 32 threads. Types: the
/// result's first.
inline std::uint64_t run(const std::string& opcode, const std::vector<std::string>& types,
                         const Words& in) {
  std::string body, operands;
  for (std::size_t i = 0; i < in.size(); ++i) {
    const std::string& type = types[i + 1];
    const std::string name = register_of(type, i + 1);
    const std::string from = "[%base+" + std::to_string(8 * i) + "];\n";
    if (type == "pred")
      body += "ld.global.b32 %r9, " + from + "setp.ne.u32 " + name + ", %r9, 0;\n";
    else
      body += "ld.global." + bits_type(type) + ' ' + name + ", " + from;
    operands += ", " + name;
  }
  const std::string result = register_of(types[0], 0);
  body += opcode + ' ' + result + operands + ";\n";
  std::string store = "mov.u32 %r11, %tid.x;\nsetp.eq.u32 %p7, %r11, 0;\n";
  if (types[0] == "pred")
    store += "selp.b32 %r10, 1, 0, " + result + ";\n@%p7 st.global.b32 [%base], %r10;";
  else
    store += "@%p7 st.global." + bits_type(types[0]) + " [%base], " + result + ';';
  const auto run_in = [&](unsigned threads) {
    const std::string members = std::to_string((std::uint64_t{1} << threads) - 1);
    const std::string text = kernel_text(body + "bar.warp.sync " + members + ";\n" + store);
    Module module(text);
    return execute(module.kernel("kernel"), in, {1, threads})[0];
  };
  const std::uint64_t found = run_in(1);
  note_tested(opcode);
  CHECK(run_in(20) == found);
  CHECK(run_in(32) == found);
  const std::string stored = types[0] == "pred" ? "b32" : bits_type(types[0]);
  return stored == "b64" ? found : found & (stored == "b16" ? 0xffff : 0xffffffff);
}

inline std::uint64_t run_same(const std::string& opcode, const std::string& type, const Words& in) {
  return run(opcode, std::vector<std::string>(in.size() + 1, type), in);
}

using Types = std::vector<std::string>;

inline constexpr std::uint64_t kNan = 0x7fc00001, kCanonical = 0x7fffffff, kInf = 0x7f800000;
inline constexpr std::uint64_t kMinusInf = 0xff800000, kMinusZero = 0x80000000, kMost = 0x7f7fffff;
inline constexpr std::uint64_t kOnes = ~std::uint64_t{0}, kTop = std::uint64_t{1} << 63;
inline constexpr std::uint64_t kCanonical64 = kOnes >> 1, kInf64 = std::uint64_t{0x7ff} << 52;

struct Edge {
  const char* opcode;
  Types types;  // the result's first; one: of all operands
  Words in;
  std::uint64_t out;
};

inline void check(const std::vector<Edge>& edges) {
  for (const Edge& edge : edges) {
    const Types types =
        edge.types.size() > 1 ? edge.types : Types(edge.in.size() + 1, edge.types[0]);
    CAPTURE(edge.opcode);
    CAPTURE(edge.in);
    CHECK(run(edge.opcode, types, edge.in) == edge.out);
  }
}

}  // namespace ringlet::emulated
