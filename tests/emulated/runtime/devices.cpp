// Device management: one to four GPUs with an H200's limits, eight multiprocessors and 8 GiB.
#include <cstdio>
#include <cstring>

#include "../emulated.h"
#include "calls.h"
#include "limits.h"

namespace {

using namespace ringlet::emulated;

thread_local cudaError_t last_error = cudaSuccess;

bool exists(int device) { return device >= 0 && device < settings().devices; }

}  // namespace

namespace ringlet::emulated {

cudaError_t note(cudaError_t error) {
  if (error != cudaSuccess) last_error = error;
  return error;
}

}  // namespace ringlet::emulated

extern "C" {

cudaError_t cudaGetLastError() { return std::exchange(last_error, cudaSuccess); }
cudaError_t cudaPeekAtLastError() { return last_error; }

const char* cudaGetErrorName(cudaError_t error) {
  switch (error) {
#define RINGLET_NAME(name) \
  case name:               \
    return #name;
    RINGLET_NAME(cudaSuccess)
    RINGLET_NAME(cudaErrorInvalidValue)
    RINGLET_NAME(cudaErrorMemoryAllocation)
    RINGLET_NAME(cudaErrorInvalidConfiguration)
    RINGLET_NAME(cudaErrorInvalidDeviceFunction)
    RINGLET_NAME(cudaErrorInvalidDevice)
    RINGLET_NAME(cudaErrorLaunchOutOfResources)
    RINGLET_NAME(cudaErrorIllegalAddress)
    RINGLET_NAME(cudaErrorMisalignedAddress)
    RINGLET_NAME(cudaErrorLaunchFailure)
    RINGLET_NAME(cudaErrorNotReady)
    RINGLET_NAME(cudaErrorIllegalState)
    RINGLET_NAME(cudaErrorCooperativeLaunchTooLarge)
    RINGLET_NAME(cudaErrorPeerAccessAlreadyEnabled)
    RINGLET_NAME(cudaErrorPeerAccessUnsupported)
    RINGLET_NAME(cudaErrorStreamCaptureUnsupported)
    RINGLET_NAME(cudaErrorStreamCaptureInvalidated)
    RINGLET_NAME(cudaErrorStreamCaptureUnjoined)
    RINGLET_NAME(cudaErrorStreamCaptureIsolation)
    RINGLET_NAME(cudaErrorStreamCaptureImplicit)
    RINGLET_NAME(cudaErrorCapturedEvent)
#undef RINGLET_NAME
    default:
      return "cudaErrorUnknown";
  }
}
const char* cudaGetErrorString(cudaError_t error) {
  switch (error) {
    case cudaErrorMemoryAllocation:
      return "out of memory";
    case cudaErrorInvalidConfiguration:
      return "invalid configuration argument";
    case cudaErrorLaunchOutOfResources:
      return "too many resources requested for launch";
    case cudaErrorIllegalAddress:
      return "an illegal memory access was encountered";
    case cudaErrorMisalignedAddress:
      return "misaligned address";
    case cudaErrorLaunchFailure:
      return "unspecified launch failure";
    case cudaErrorNotReady:
      return "device not ready";
    case cudaErrorStreamCaptureUnsupported:
      return "operation not permitted when stream is capturing";
    case cudaErrorStreamCaptureInvalidated:
      return "operation failed due to a previous error during capture";
    default:
      return cudaGetErrorName(error);
  }
}

cudaError_t cudaDriverGetVersion(int* version) {
  *version = CUDART_VERSION;
  return cudaSuccess;
}
cudaError_t cudaGetDeviceCount(int* count) {
  *count = settings().devices;
  return cudaSuccess;
}
cudaError_t cudaGetDevice(int* device) {
  *device = current_device();
  return cudaSuccess;
}
cudaError_t cudaSetDevice(int device) {
  if (!exists(device)) return note(cudaErrorInvalidDevice);
  Call call;
  static unsigned contexts = 0;  // a bit for each device
  const unsigned here = 1u << device;
  if ((contexts & here) == 0) call.streams().delay_call(call.lock());
  contexts |= here;
  current_device() = device;
  return cudaSuccess;
}

cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device) {
  if (!exists(device)) return note(cudaErrorInvalidDevice);
  switch (attribute) {
    case cudaDevAttrMultiProcessorCount:
      *value = kMultiprocessors;
      break;
    case cudaDevAttrComputeCapabilityMajor:
      *value = 9;
      break;
    case cudaDevAttrComputeCapabilityMinor:
      *value = 0;
      break;
    case cudaDevAttrMaxSharedMemoryPerBlock:
      *value = kSharedByDefault;
      break;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin:
      *value = kSharedOfBlock;
      break;
    case cudaDevAttrMaxGridDimX:
      *value = INT32_MAX;
      break;
    case cudaDevAttrWarpSize:
      *value = kLanes;
      break;
    default:
      std::fprintf(stderr, "emulated GPU: device attribute %d is not known\n",
                   static_cast<int>(attribute));
      return note(cudaErrorInvalidValue);
  }
  return cudaSuccess;
}
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  if (!exists(device)) return note(cudaErrorInvalidDevice);
  *properties = {};
  std::strcpy(properties->name, "emulated GPU");
  properties->major = 9;
  properties->multiProcessorCount = kMultiprocessors;
  properties->totalGlobalMem = kDeviceBytes;
  properties->warpSize = kLanes;
  return cudaSuccess;
}
cudaError_t cudaDeviceGetPCIBusId(char* id, int length, int device) {
  if (!exists(device)) return note(cudaErrorInvalidDevice);
  std::snprintf(id, static_cast<std::size_t>(length), "0000:%02x:00.0", device + 1);
  return cudaSuccess;
}
cudaError_t cudaDeviceCanAccessPeer(int* can, int device, int peer) {
  if (!exists(device) || !exists(peer)) return note(cudaErrorInvalidDevice);
  *can = settings().peer_access && device != peer;
  return cudaSuccess;
}
cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned) {
  Call call;
  call.streams().delay_call(call.lock());
  if (!settings().peer_access) return note(cudaErrorPeerAccessUnsupported);
  if (Memory::instance().has_peer(current_device(), peer))
    return note(cudaErrorPeerAccessAlreadyEnabled);
  Memory::instance().allow_peer(current_device(), peer);
  return cudaSuccess;
}
cudaError_t cudaDeviceSynchronize() {
  Call call;
  if (const cudaError_t refused = refuse_beside_captures()) return note(refused);
  return note(call.streams().finish_all(call.lock()));
}
}
