// One table for an op: its values and gradients are PyTorch's, over the op's cases in
// tests/oracles/ops.safetensors.
#pragma once

#include <algorithm>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "../oracle.h"
#include "ringlet/autograd/variable.h"

namespace ringlet::autograd {

/// A case of the oracle; the tensors that have a gradient there are leaves.
struct Case {
  const Oracle& ops;
  const std::string name;
  mutable std::map<std::string, Variable> leaves{};

  bool has(const std::string& tensor) const { return ops.contains(name + "/" + tensor); }
  Tensor tensor(const std::string& tensor) const { return ops.tensor(name + "/" + tensor); }
  double number(const std::string& attribute) const { return ops.scalar(name + "/" + attribute); }
  int integer(const std::string& attribute) const { return static_cast<int>(number(attribute)); }
  /// Undefined if the case has no such tensor.
  Variable leaf(const std::string& input) const {
    if (!has(input)) return {};
    return leaves.try_emplace(input, Variable(tensor(input), has("grad_" + input))).first->second;
  }
  /// x0, x1, …
  std::vector<Variable> list() const {
    std::vector<Variable> all;
    while (has("x" + std::to_string(all.size())))
      all.push_back(leaf("x" + std::to_string(all.size())));
    return all;
  }
  /// The sizes that bounds are made of.
  double numel(const std::string& of) const { return std::max<double>(1, tensor(of).numel()); }
  double columns(const std::string& of) const { return static_cast<double>(tensor(of).size(-1)); }
  double terms(const std::string& input) const { return tensor("y").numel() / numel(input); }
};

/// In roundings of the largest element, or of `floor` where that is larger: the size of terms that
/// may have cancelled. `of` is "y" or an input.
struct Bound {
  using Of = std::function<double(const Case&, const std::string& of)>;
  explicit Bound(Of roundings, Of floor = always(0))
      : roundings(std::move(roundings)), floor(std::move(floor)) {}
  Bound(double roundings, double floor = 0) : Bound(always(roundings), always(floor)) {}
  static Of always(double number) {
    return [=](const Case&, const std::string&) { return number; };
  }
  void check(const Case& c, const std::string& of, const Tensor& actual,
             const Tensor& expected) const {
    check_close(actual, expected, roundings(c, of) * kF32, c.name + " " + of,
                std::max(0x1p-126, floor(c, of)));
  }
  Of roundings, floor;
};

/// An op, and the bounds of its value and of its inputs' gradients.
struct Row {
  const char* op;
  std::function<Variable(const Case&)> function;
  Bound value, gradient;
};

inline void check(const Row& row) {
  const Oracle ops("ops");
  for (const std::string& name : ops.cases(row.op)) {
    const Case c{ops, name};
    const Variable y = row.function(c);
    row.value.check(c, "y", y.tensor(), c.tensor("y"));
    y.backward(c.has("grad_y") ? c.tensor("grad_y") : Tensor());
    const std::string gradients = name + "/grad_";
    for (const std::string& gradient : ops.names()) {
      if (!gradient.starts_with(gradients) || gradient == gradients + "y") continue;
      const std::string input = gradient.substr(gradients.size());
      REQUIRE(c.leaves.contains(input));  // the row's function has used it
      row.gradient.check(c, input, c.leaves.at(input).grad(), ops.tensor(gradient));
    }
  }
}

// An operand's gradient sums one term per use, each rounded `fixed` times.
inline Bound with_terms(double fixed) {
  return Bound([=](const Case& c, const std::string& of) { return fixed + c.terms(of); });
}

}  // namespace ringlet::autograd
