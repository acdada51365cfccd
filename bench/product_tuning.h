// The choice among the algorithms of a product by their times, and the rows of
// cuda/product_table.inc.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace ringlet::bench {

/// The median of several runs, and the quarters around it.
struct Quartiles {
  double low, median, high;
};
Quartiles quartiles(std::vector<double> seconds);

/// The algorithm with the least median; 0, the library's first choice, unless this one is faster by
/// more than their spreads and by kLeastGain.
std::size_t fastest(std::span<const Quartiles> algorithms);
inline constexpr double kLeastGain = 0.02;

/// The C++ initialiser of a TunedProduct (cuda/product_algorithm.h), with a comma and a line end.
std::string table_row(std::string_view gpu, std::size_t cublas, std::string_view product,
                      std::span<const std::uint64_t> algorithm);

/// Numbers of tokens of steps, in the order of their use: buckets around 32 pairs of SNLI, 32 pairs
/// of 50 tokens, 256 sentences of 384, and the other buckets.
std::vector<std::int64_t> tuned_tokens();

}  // namespace ringlet::bench
