// Enums and the names of their values, in options, messages and files.
#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace ringlet {

/// The position of a name; InputError "unknown WHAT 'NAME'; expected A, B or C" if it is none.
std::size_t find_name(const char* what, std::string_view name,
                      std::span<const std::string_view> names);
/// "A, B or C".
std::string list_names(std::span<const std::string_view> names);

/// Names of values that count from 0.
template <class Enum, std::size_t n>
struct EnumNames {
  const char* what;  // the word for a value in messages: "strategy"
  std::array<std::string_view, n> all;

  constexpr std::string_view operator()(Enum value) const {
    return all[static_cast<std::size_t>(value)];
  }
  Enum parse(std::string_view name) const { return static_cast<Enum>(find_name(what, name, all)); }
  std::string list() const { return list_names(all); }
  /// The names from a value on.
  std::string list_from(Enum first) const {
    return list_names(std::span(all).subspan(static_cast<std::size_t>(first)));
  }
};

}  // namespace ringlet
