// The checks of an exercise compare values and say in words what differs.
#pragma once

#include <cmath>
#include <functional>
#include <string>
#include <type_traits>
#include <vector>

#include "ringlet.h"

namespace exercise {

struct Exercise {
  std::string file;
  int number;
  std::string title;
  void (*check)();
};

inline std::vector<Exercise>& all() {
  static std::vector<Exercise> exercises;
  return exercises;
}

struct Registered {
  explicit Registered(Exercise exercise) { all().push_back(std::move(exercise)); }
};

template <class T>
std::string text(const T& value) {
  return ringlet::str(value);
}
inline std::string text(const std::string& value) { return value.empty() ? "\"\"" : value; }
inline std::string text(bool value) { return value ? "true" : "false"; }
inline std::string text(const ringlet::Tensor& value) {
  return value ? ringlet::str(value) : "an undefined tensor";
}
template <class T>
std::string text(const std::vector<T>& values) {
  std::string all;
  for (const auto& value : values) all += (all.empty() ? "" : ", ") + text(value);
  return "[" + all + "]";
}

/// Floating values are equal up to `kTolerance`; everything else exactly.
constexpr double kTolerance = 1e-4;
template <class T>
bool equal(const T& a, const T& b) {
  if constexpr (std::is_floating_point_v<T>)
    return std::abs(a - b) <= kTolerance * (1 + std::abs(b));
  else
    return a == b;
}
template <class T>
bool equal(const std::vector<T>& a, const std::vector<T>& b) {
  if (a.size() != b.size()) return false;
  for (std::size_t i = 0; i < a.size(); ++i)
    if (!equal(a[i], b[i])) return false;
  return true;
}
inline bool equal(const ringlet::Tensor& a, const ringlet::Tensor& b) {
  return a && a.shape() == b.shape() && equal(a.to_vector<double>(), b.to_vector<double>());
}

/// Ends the exercise with an Error unless both are equal.
template <class T>
void expect(const std::string& what, const T& found, const std::type_identity_t<T>& expected,
            const std::string& hint) {
  if (!equal(found, expected))
    throw ringlet::Error(ringlet::str(what, ": expected ", text(expected), ", found ", text(found),
                                      "\n  hint: ", hint));
}

}  // namespace exercise

/// EXERCISE(1, "title") { expect(...); } is the check of exercise 1 of its file.
#define EXERCISE(number, title)                                     \
  static void check_##number();                                     \
  static const exercise::Registered registered_##number(            \
      exercise::Exercise{__FILE__, number, title, check_##number}); \
  static void check_##number()

using exercise::expect;
