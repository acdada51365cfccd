// Mixing of 64-bit keys: the source of every order and every draw in this folder.
#pragma once

#include <cstdint>
#include <string_view>

namespace ringlet::train {

/// A bijection of 64-bit numbers in which every input bit reaches every output bit (the finaliser
/// of SplitMix64, Steele, Lea and Flood 2014).
constexpr std::uint64_t mix64(std::uint64_t x) {
  x += 0x9E3779B97F4A7C15u;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
  return x ^ (x >> 31);
}

/// A key made of several keys; their order matters.
template <class... More>
constexpr std::uint64_t mix64(std::uint64_t first, std::uint64_t second, More... more) {
  const std::uint64_t both = mix64(mix64(first) ^ second);
  if constexpr (sizeof...(more) == 0) {
    return both;
  } else {
    return mix64(both, static_cast<std::uint64_t>(more)...);
  }
}

/// A hash that is the same on every machine and in every release (FNV-1a, then mixed).
constexpr std::uint64_t hash_text(std::string_view text) {
  std::uint64_t hash = 0xCBF29CE484222325u;
  for (const char c : text) {
    hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001B3u;
  }
  return mix64(hash);
}

/// Maps 64 random bits to 0 … n-1; n is below 2^32 and the bias below n / 2^32.
constexpr std::uint64_t below(std::uint64_t n, std::uint64_t bits) {
  return (bits >> 32) * n >> 32;
}

}  // namespace ringlet::train
