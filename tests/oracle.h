// PyTorch's results (tests/oracles/README.md), and error bounds for comparisons with them.
//
//   const Oracle ops("ops");
//   for (const std::string& c : ops.cases("layer_norm"))
//     check_close(layer_norm(ops.tensor(c + "/x"), …), ops.tensor(c + "/y"), 4 * kF32);
#pragma once

#include <doctest/doctest.h>

#include <cmath>
#include <cstdlib>
#include <limits>
#include <set>
#include <string>
#include <vector>

#include "ringlet/core/io/safetensors.h"
#include "ringlet/tests/files.h"

namespace ringlet {

/// tests/oracles, or RINGLET_ORACLES if the scripts wrote larger ones.
inline std::string oracle_folder() {
  const char* other = std::getenv("RINGLET_ORACLES");
  return other != nullptr ? other : tests_file("oracles");
}

/// NAME.safetensors of that folder.
class Oracle {
 public:
  explicit Oracle(const std::string& name)
      : file_(SafeTensors::open(oracle_folder() + "/" + name + ".safetensors")) {}

  /// "case/tensor"; a copy, so writable.
  Tensor tensor(const std::string& name) const {
    return file_.load(name).clone().to(default_device());
  }
  Tensor tensor(const std::string& name, DType dtype) const { return tensor(name).to(dtype); }
  bool contains(const std::string& name) const { return file_.contains(name); }
  /// An attribute: a tensor of shape ().
  double scalar(const std::string& name) const {
    REQUIRE(file_.shape(name) == Shape{});
    return file_.load(name).item<double>();
  }
  bool flag(const std::string& name) const { return scalar(name) != 0; }
  /// The cases "op.variant" of an op, sorted; never none.
  std::vector<std::string> cases(const std::string& op) const {
    std::set<std::string> found;
    for (const std::string& name : file_.names())
      if (name.starts_with(op + ".")) found.insert(name.substr(0, name.find('/')));
    REQUIRE_FALSE(found.empty());
    return {found.begin(), found.end()};
  }
  const std::vector<std::string>& names() const { return file_.names(); }

 private:
  SafeTensors file_;
};

/// Unit roundoffs: the largest relative error of one rounding.
inline constexpr double kF32 = 0x1p-24;
inline constexpr double kF64 = 0x1p-53;
inline constexpr double kBF16 = 0x1p-8;

/// The error of `actual` relative to `expected`, and its bound.
struct Closeness {
  double error = 0;    // max |actual - expected|
  double allowed = 0;  // tolerance * max(max |expected|, floor)
  std::size_t at = 0;
  double share() const { return error == 0 ? 0 : error / allowed; }
};

inline Closeness closeness(const Tensor& actual, const Tensor& expected, double tolerance,
                           double floor) {
  const std::vector<double> a = actual.to_vector<double>(), b = expected.to_vector<double>();
  Closeness out;
  double largest = floor;
  for (std::size_t i = 0; i < b.size(); ++i) {
    const double difference =
        a[i] == b[i] || (std::isnan(a[i]) && std::isnan(b[i])) ? 0 : std::abs(a[i] - b[i]);
    if (std::isfinite(b[i])) largest = std::max(largest, std::abs(b[i]));
    if (!(difference <= out.error)) {
      out.error = std::isnan(difference) ? std::numeric_limits<double>::infinity() : difference;
      out.at = i;
    }
  }
  out.allowed = tolerance * largest;
  return out;
}

/// Checks shape and max |a - b| <= tolerance * max(max |b|, floor); `floor` is the size of terms
/// that may have cancelled. Returns the used share of the allowed error; the test programs print it
/// with -s.
inline double check_close(const Tensor& actual, const Tensor& expected, double tolerance,
                          const std::string& what = "", double floor = 0x1p-126) {
  INFO(what);
  REQUIRE(actual.shape() == expected.shape());
  const Closeness result = closeness(actual, expected, tolerance, floor);
  INFO("element " << result.at << ": error " << result.error << ", allowed " << result.allowed);
  const double share = result.share();
  CHECK(share <= 1);
  return share;
}

/// Checks that `sums` (C) is the sum of x's (.., C) rows, plus `before` unless undefined. In any
/// order each addition rounds by at most half a unit of the magnitudes' sum.
inline void check_row_sums(const Tensor& sums, const Tensor& x, const Tensor& before = {}) {
  const std::size_t columns = static_cast<std::size_t>(x.size(-1));
  const std::vector<double> got = sums.to_vector<double>(), all = x.to_vector<double>();
  std::vector<double> exact(columns), size(columns);
  const auto take = [&](double value, std::size_t column) {
    exact[column] += value;
    size[column] += std::abs(value);
  };
  for (std::size_t i = 0; i < all.size(); ++i) take(all[i], i % columns);
  if (before.defined())
    for (std::size_t i = 0; i < columns; ++i) take(before.to_vector<double>()[i], i);
  const double unit = sums.dtype() == DType::f64 ? 2 * kF64 : kF32;  // `exact` is f64, too
  for (std::size_t i = 0; i < columns; ++i) {
    INFO("column " << i);
    REQUIRE(std::abs(got[i] - exact[i]) <=
            static_cast<double>(all.size() / columns + 1) * unit * size[i]);
  }
}

}  // namespace ringlet
