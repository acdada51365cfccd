// Copies a tensor's values to the host asynchronously: the caller waits only when it reads them.
//
//   HostCopy loss(value);     // ordered after the device's earlier work
//   next_step();              // may write over `value`
//   report(loss.item());      // waits until the copy is complete
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "ringlet/core/tensor/tensor.h"

namespace ringlet {

class DeviceDownload;

/// On a synchronous device, such as a CPU, the copy is complete after construction.
class HostCopy {
 public:
  HostCopy() = default;
  explicit HostCopy(const Tensor& values);

  bool defined() const { return dtype_.has_value(); }
  /// All values, row-major. The first call waits until the copy is complete.
  const std::vector<double>& values();
  /// The value of a tensor with one element.
  double item();

 private:
  std::shared_ptr<DeviceDownload> download_;
  std::optional<DType> dtype_;
  std::int64_t numel_ = 0;
  std::vector<double> values_;
};

}  // namespace ringlet
