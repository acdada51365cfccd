// The operation table: from an opcode with its modifiers to the function that executes it.
#pragma once

#include <string>
#include <unordered_map>

#include "../gpu/warp.h"

namespace ringlet::emulated {

/// The operand widths of an opcode in bytes; 0 for a predicate.
struct Operation {
  Instruction::Run run = nullptr;
  std::uint8_t result_bytes = 0;
  std::vector<std::uint8_t> operand_bytes{};
  Instruction::Kind kind = Instruction::Kind::plain;
  std::uint8_t variant = 0;
};

using Operations = std::unordered_map<std::string, Operation>;

/// Operations on registers and immediates. decode.cpp decodes addresses, vectors, special registers
/// and labels.
const Operations& operations();

void add_integer_operations(Operations& to);
void add_carry_operations(Operations& to);
void add_bit_operations(Operations& to);
void add_float_operations(Operations& to);
void add_compare_operations(Operations& to);
void add_convert_operations(Operations& to);
void add_warp_operations(Operations& to);

template <class T>
const char* suffix() {
  if constexpr (std::is_same_v<T, float>) return ".f32";
  if constexpr (std::is_same_v<T, double>) return ".f64";
  if constexpr (std::is_same_v<T, std::int8_t>) return ".s8";
  if constexpr (std::is_same_v<T, std::uint8_t>) return ".u8";
  if constexpr (std::is_same_v<T, std::int16_t>) return ".s16";
  if constexpr (std::is_same_v<T, std::uint16_t>) return ".u16";
  if constexpr (std::is_same_v<T, std::int32_t>) return ".s32";
  if constexpr (std::is_same_v<T, std::uint32_t>) return ".u32";
  if constexpr (std::is_same_v<T, std::int64_t>) return ".s64";
  if constexpr (std::is_same_v<T, std::uint64_t>) return ".u64";
}

namespace detail {

template <auto kFunction, class R, class... A, std::size_t... kIndex>
void run_each(Warp& warp, const Instruction& at, Mask mask, std::index_sequence<kIndex...>) {
  const auto in = std::make_tuple(cells<Cell<A>>(warp, at.in[kIndex])...);
  put_lanes(result<Cell<R>>(warp, at.out[0]), mask, [&](int lane) {
    return to_cell<R>(kFunction(from_cell<A>(std::get<kIndex>(in)[lane])...));
  });
}

template <auto kFunction, class R, class... A>
void run_lanes(Warp& warp, const Instruction& at, Mask mask) {
  run_each<kFunction, R, A...>(warp, at, mask, std::index_sequence_for<A...>());
}

}  // namespace detail

/// Applies R kFunction(A...) to each lane.
template <auto kFunction, class R, class... A>
Operation lanewise() {
  return {
      &detail::run_lanes<kFunction, R, A...>, sizeof(R), {static_cast<std::uint8_t>(sizeof(A))...}};
}

/// Calls add(T{}) for each type.
template <class... T, class Add>
void for_types(Add&& add) {
  (add(T{}), ...);
}

}  // namespace ringlet::emulated
