#include "ringlet/cuda/peer_access.h"

#include <array>
#include <mutex>

#include "ringlet/cuda/check.h"
#include "ringlet/cuda/stream.h"

namespace ringlet::cuda {
namespace {

bool enable(Device to, Device from) {
  int can = 0;
  RINGLET_CUDA(cudaDeviceCanAccessPeer(&can, to.index, from.index));
  if (!can) return false;
  const DeviceGuard guard(to);
  const cudaError_t status = cudaDeviceEnablePeerAccess(from.index, 0);
  if (status == cudaErrorPeerAccessAlreadyEnabled) {
    static_cast<void>(cudaGetLastError());  // another library has enabled it
    return true;
  }
  RINGLET_CUDA(status);
  return true;
}

struct Way {
  std::once_flag asked;
  bool direct = false;
};

}  // namespace

bool enable_peer_access(Device to, Device from) {
  static auto* const ways = new std::array<std::array<Way, kMostDevices>, kMostDevices>;
  Way& way = (*ways)[static_cast<std::size_t>(to.index)][static_cast<std::size_t>(from.index)];
  std::call_once(way.asked, [&] { way.direct = enable(to, from); });
  return way.direct;
}

}  // namespace ringlet::cuda
