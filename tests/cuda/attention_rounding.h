// The number of roundings in attention, and how their errors add up.
#pragma once

#include <cmath>
#include <cstdint>
#include <vector>

#include "attention_cases.h"

namespace ringlet {

using Values = std::vector<double>;

/// Roundings of the tested code that depend on its order of summation.
struct Roundings {
  bool tiles;   // adds 16 exact products, then those sums; rows add products one by one
  double span;  // of a sum over keys, per 32 of them: its terms, and 6 of the factor of a new
                // maximum, for its exponential, product and sum
  double last;  // plus at its end

  Roundings(const AttentionCase& c, bool by_tiles)
      : tiles(by_tiles), span(by_tiles ? 8 + 6 : 1 + 6), last(by_tiles ? 2 : 5) {
    if (c.dtype == DType::f64) span = 32;  // the reference is as coarse: it adds key by key
  }
  double sum(double keys) const { return span * std::ceil(keys / 32) + last; }
};
constexpr double kExp = 4;  // of an exponential, which has an error of 2 units: their square

// A result's error is a sum of roundings. Each is at most a unit of the rounded value, times its
// effect on the result. The probability that it exceeds kRoots times the root of the sum of their
// squares is 2 exp(-kRoots^2 / 2) = 3e-8. (Hoeffding, "Probability inequalities for sums of bounded
// random variables", 1963.)
constexpr double kRoots = 6;
// Three shares of the same roundings: (a + b + c)^2 <= 3 (a^2 + b^2 + c^2).
constexpr double kShares = 3;

inline double square(double x) { return x * x; }

/// A product of rows with its partial sums, and the squares of their roundings.
struct Product {
  const Roundings& roundings;
  double sum = 0, part = 0, squares = 0;
  void add(std::int64_t i, double term) {
    if (roundings.tiles && i % 16 == 0) part = 0;
    part += term;
    sum += term;
    squares += square(part) + (roundings.tiles && i % 16 == 15 ? square(sum) : 0);
  }
};

}  // namespace ringlet
