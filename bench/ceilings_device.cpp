#include "ceilings_device.h"

#include "device_seconds.h"
#include "ringlet/core/ops/matmul.h"
#include "ringlet/core/ops/random.h"

namespace ringlet::bench {

double product_rate(Device device, DType dtype, std::int64_t n) {
  const auto matrix = [&] { return uniform({n, n}, -1, 1, DType::f32, device).to(dtype); };
  const Tensor a = matrix(), b = matrix();
  Tensor out = empty({n, n}, dtype, device);
  const auto size = static_cast<double>(n);
  return 2 * size * size * size /
         device_seconds(device, [&] { matmul_into(out, a, b, {.trans_b = true}); });
}

Tensor noise(Device device, std::size_t nbytes) {
  return uniform({static_cast<std::int64_t>(nbytes / sizeof(float))}, -1, 1, DType::f32, device);
}

double copy_rate(Device device, std::size_t nbytes) {
  const Tensor from = noise(device, nbytes);
  Tensor to = noise(device, nbytes);
  return 2 * static_cast<double>(nbytes) / device_seconds(device, [&] { to.copy_(from); });
}

}  // namespace ringlet::bench
