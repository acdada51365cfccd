// A tensor's values on their way to the host, for who does not want to wait for them yet.
//
//   HostCopy loss(value);     // sets out behind what the device was given before
//   next_step();              // may write over `value`
//   report(loss.item());      // waits until the device has got as far as the first line
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "ringlet/core/tensor.h"

namespace ringlet {

/// On a CPU, and on any device that never runs behind, they have come when this is made.
class HostCopy {
 public:
  HostCopy() = default;
  explicit HostCopy(const Tensor& values);

  bool defined() const { return dtype_.has_value(); }
  /// All of them, row-major. The first to ask waits, until they have come.
  const std::vector<double>& values();
  /// The only one.
  double item();

 private:
  std::unique_ptr<Download> download_;
  std::optional<DType> dtype_;
  std::int64_t numel_ = 0;
  std::vector<double> values_;
};

}  // namespace ringlet
