// Operands of a kernel: registers by scope, immediates, and addresses of variables and parameters.
#pragma once

#include <map>
#include <stdexcept>
#include <unordered_map>

#include "../gpu/memory.h"
#include "program.h"

namespace ringlet::emulated {

/// PTX that cannot be decoded; the decoder adds the place.
struct Undecodable : std::runtime_error {
  using runtime_error::runtime_error;
};

/// A register; predicates have 0 bytes.
struct Register {
  Operand at = kNone;
  std::uint8_t bytes = 0;
};

/// A variable or a parameter.
struct Symbol {
  Space space = Space::generic;
  std::uint64_t address = 0;
};
using Symbols = std::unordered_map<std::string, Symbol>;

/// Reserves registers, constants and memory in a kernel. Throws Undecodable.
class Operands {
 public:
  explicit Operands(Kernel& kernel) : kernel_(kernel) {}

  void open_scope() { registers_.emplace_back(); }
  void close_scope() { registers_.pop_back(); }
  void declare(const Declaration& declared);
  void declare_parameter(const Declaration& declared);
  /// Dynamic shared memory: follows all static shared memory.
  void declare_dynamic(const Declaration& declared) { dynamic_.push_back(declared.name); }
  /// Call after the first declarations and at the end.
  void place_dynamic();

  Operand new_register(std::uint8_t bytes);
  /// Null if there is none in scope.
  Register* find_register(const std::string& name);
  Register& named_register(const std::string& name);
  Operand constant(std::uint64_t value, std::size_t bytes);
  /// A register, an immediate or an address. The register must have the width of the type; 8 and
  /// 16 bits count as 32.
  Operand operand(const std::string& text, std::size_t bytes);
  /// The same; kNone for "_".
  Operand output(const std::string& text, std::size_t bytes) {
    return text == "_" ? kNone : operand(text, bytes);
  }
  /// Reads "[%rd1+8]", "[name+8]" or "[16]" into in[0] and offset.
  void set_address(Instruction& made, const std::string& text);

  Symbols symbols;

 private:
  Kernel& kernel_;
  std::vector<std::unordered_map<std::string, Register>> registers_{1};
  std::vector<std::string> dynamic_;
  std::map<std::pair<std::uint64_t, std::size_t>, Operand> constants_;
};

}  // namespace ringlet::emulated
