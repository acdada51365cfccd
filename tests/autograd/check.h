// The gradient check in one line: CHECK_GRADIENTS(function of the inputs, inputs…).
#pragma once

#include <doctest/doctest.h>

#include "ringlet/autograd/gradcheck.h"

namespace ringlet::autograd {

/// An f64 leaf with values from a fixed sequence in (low, high), excluding the ends.
inline Variable input(const Shape& shape, double low = -1, double high = 1) {
  static std::uint64_t state = 1;
  std::vector<double> values(static_cast<std::size_t>(shape.numel()));
  for (double& value : values) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    value = low + (high - low) * (0.5 + static_cast<double>(state >> 11) / 9007199254740992.0) / 2;
    if (low < 0 && (state & 1024)) value = low + high - value;
  }
  return Variable(tensor(values, shape), true);
}

using Inputs = std::vector<Variable>;

}  // namespace ringlet::autograd

#define CHECK_GRADIENTS(function, ...)                                                        \
  do {                                                                                        \
    const auto report = ::ringlet::autograd::gradcheck(function, {__VA_ARGS__});              \
    INFO("input ", report.input, " element ", report.element, ": analytic ", report.analytic, \
         " numeric ", report.numeric, " error ", report.error);                               \
    CHECK(report.ok());                                                                       \
  } while (false)
