// Parsed PTX text: a module's variables, functions and statements.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace ringlet::emulated {

/// A line of CUDA source; line 0 if the compiler recorded none.
struct SourceLine {
  std::uint32_t file = 0, line = 0;
};

/// `.shared .align 4 .b8 name[128]`, a parameter, or `.reg .b32 %r<31>`, where count is 31.
struct Declaration {
  std::string space;  // ".reg", ".shared", ".param", ...
  std::string type;   // "b32"
  std::string name;   // "%r" where registers are numbered
  std::size_t align = 0, count = 1;
  bool is_array = false, is_extern = false;
  std::vector<std::uint64_t> values{};  // initial ones
};

struct Statement {
  enum class Kind { instruction, label, open_scope, close_scope, declaration };
  Kind kind = Kind::instruction;
  SourceLine line{};
  std::string guard{};  // "%p1", empty without
  bool negated = false;
  std::string opcode{};  // "ld.global.f32"; a label's name
  std::vector<std::string> operands{};
  std::vector<Declaration> declared{};
};

struct Function {
  std::string name;
  bool is_entry = false;
  std::vector<Declaration> results, parameters;
  std::vector<std::uint32_t> most_threads;  // .maxntid
  std::string text;                         // of the body

  std::vector<Statement> body() const;
};

struct ModuleSource {
  int architecture = 0;  // 90 for `.target sm_90a`
  std::map<std::string, Function> functions;
  std::vector<Declaration> variables;
  std::map<std::uint32_t, std::string> files;
};

/// Throws std::runtime_error that quotes the text it cannot parse.
ModuleSource parse_module(const std::string& text);

/// The size of a type such as "f32" in bytes; 0 for "pred".
std::size_t bytes_of(const std::string& type);

/// Splits "a, {b, c}, [d+4]" at commas outside of brackets and removes white space.
std::vector<std::string> split_operands(const std::string& text);
/// Splits at every `by`.
std::vector<std::string> split(const std::string& text, char by);

}  // namespace ringlet::emulated
