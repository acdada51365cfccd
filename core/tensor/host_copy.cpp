#include "ringlet/core/tensor/host_copy.h"

#include <algorithm>

#include "ringlet/core/device/backend.h"
#include "ringlet/core/device/graph.h"

namespace ringlet {
namespace {

class HostDownload final : public DeviceDownload {
 public:
  explicit HostDownload(std::size_t nbytes) : bytes_(nbytes) {}
  std::byte* data() { return bytes_.data(); }
  const std::byte* wait() override { return bytes_.data(); }

 private:
  std::vector<std::byte> bytes_;
};

}  // namespace

std::unique_ptr<DeviceDownload> DeviceBackend::start_download(Device device, const void* from,
                                                              std::size_t nbytes) {
  auto download = std::make_unique<HostDownload>(nbytes);
  copy(download->data(), Device{}, from, device, nbytes);
  return download;
}

HostCopy::HostCopy(const Tensor& values) : dtype_(values.dtype()), numel_(values.numel()) {
  const Device device = values.device();
  check_not_capturing("a copy to the host", device);
  download_ = backend(device.type).start_download(device, values.bytes(), values.nbytes());
}

const std::vector<double>& HostCopy::values() {
  RINGLET_CHECK(defined(), "[host_copy] of no tensor");
  if (!download_) return values_;
  Tensor host = empty({numel_}, *dtype_, Device{});
  std::copy_n(download_->wait(), host.nbytes(), host.mutable_bytes());
  values_ = host.to_vector<double>();
  download_.reset();
  return values_;
}

double HostCopy::item() {
  RINGLET_CHECK_EQ(values().size(), std::size_t{1}, "[host_copy] one element is needed");
  return values_[0];
}

}  // namespace ringlet
