// The reference bits: the result of a Group of ranks on the CPU.
#pragma once

#include <cmath>
#include <cstring>
#include <random>
#include <vector>

#include "ringlet/comm/launch.h"

namespace ringlet {

/// Magnitudes differ enough for every order of summation to round differently. Integers are small
/// and of both signs; u8 uses its whole range.
template <class T>
std::vector<T> scattered(std::int64_t n, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<T> values;
  for (std::int64_t i = 0; i < n; ++i) {
    if constexpr (std::is_integral_v<T>) {
      values.push_back(static_cast<T>(random()));
    } else {
      const double mantissa = static_cast<double>(random() % 2001) / 1000 - 1;
      const double value = std::ldexp(mantissa, static_cast<int>(random() % 10) - 5);
      if constexpr (std::is_same_v<T, double>)
        values.push_back(value);
      else
        values.push_back(T(static_cast<float>(value)));
    }
  }
  return values;
}

/// The reduction of inputs[rank] (n): every rank's result.
template <class T>
std::vector<T> reduced_on_cpu(const std::vector<std::vector<T>>& inputs, comm::Algorithm algorithm,
                              comm::ReduceOp op) {
  std::vector<T> result(inputs[0].size());
  const auto n = static_cast<std::int64_t>(result.size());
  const auto rank_main = [&](const comm::Group& group) {
    const auto& mine = inputs[static_cast<std::size_t>(group.rank())];
    Tensor values = empty({n}, dtype_of<T>(), Device{});
    std::memcpy(values.mutable_bytes(), mine.data(), values.nbytes());
    group.all_reduce(values, op).wait();
    if (group.rank() == 0)
      std::memcpy(static_cast<void*>(result.data()), values.bytes(), values.nbytes());
  };
  comm::launch(rank_main, static_cast<int>(inputs.size()), {.group = {.algorithm = algorithm}});
  return result;
}

/// The index of the first element with different bits; -1 if there is none.
template <class T>
std::int64_t first_difference(const std::vector<T>& a, const std::vector<T>& b) {
  if (a.size() != b.size()) return 0;
  for (std::size_t i = 0; i < a.size(); ++i)
    if (std::memcmp(&a[i], &b[i], sizeof(T)) != 0) return static_cast<std::int64_t>(i);
  return -1;
}

}  // namespace ringlet
