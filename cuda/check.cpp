#include "ringlet/cuda/check.h"

#include "cuda/build_settings.h"
#include "ringlet/core/base/error.h"

namespace ringlet::cuda {
namespace {

constexpr const char* kMakeRoom =
    "; a smaller batch, or another process on the device, may make room";
constexpr const char* kDeviceLost =
    "; an earlier kernel failed and the device is lost to this process: run with "
    "CUDA_LAUNCH_BLOCKING=1, or under compute-sanitizer, to see which";

const char* hint(cudaError_t status) {
  switch (status) {
    case cudaErrorMemoryAllocation:
      return kMakeRoom;
    case cudaErrorInsufficientDriver:
      return "; the driver is older than this build's CUDA " RINGLET_CUDA_TOOLKIT
             ", or there is none";
    case cudaErrorNoKernelImageForDevice:
      return "; this build has code for " RINGLET_CUDA_ARCH
             ": configure with -Dgpu_arch=… for this device";
    case cudaErrorIllegalAddress:
    case cudaErrorMisalignedAddress:
    case cudaErrorLaunchFailure:
    case cudaErrorAssert:
      return kDeviceLost;
    case cudaErrorStreamCaptureUnsupported:
    case cudaErrorStreamCaptureInvalidated:
    case cudaErrorStreamCaptureImplicit:
    case cudaErrorStreamCaptureIsolation:
    case cudaErrorStreamCaptureUnjoined:
    case cudaErrorStreamCaptureWrongThread:
    case cudaErrorCapturedEvent:
      return "; while a step is captured nothing may wait for the device, read from it on the "
             "host, free its memory, or use its stream from another stream or thread";
    case cudaErrorInitializationError:
      return "; a process that has used CUDA cannot fork ranks: launch them with `ringlet run`";
    default:
      return "";
  }
}

const char* words(cublasStatus_t status) {
  switch (status) {
    case CUBLAS_STATUS_NOT_INITIALIZED:
      return "not initialized";
    case CUBLAS_STATUS_ALLOC_FAILED:
      return "out of memory";
    case CUBLAS_STATUS_INVALID_VALUE:
      return "invalid value";
    case CUBLAS_STATUS_ARCH_MISMATCH:
      return "the device is too old for it";
    case CUBLAS_STATUS_EXECUTION_FAILED:
      return "the kernel failed";
    case CUBLAS_STATUS_NOT_SUPPORTED:
      return "not supported";
    default:
      return "failed";
  }
}

const char* hint(cublasStatus_t status) {
  switch (status) {
    case CUBLAS_STATUS_NOT_INITIALIZED:
      return "; it could not start on the device: too little free memory, or a driver older than "
             "the library";
    case CUBLAS_STATUS_ALLOC_FAILED:
      return kMakeRoom;
    case CUBLAS_STATUS_ARCH_MISMATCH:
      return "; products of bf16 need a GPU of compute capability 8.0 (Ampere) or newer";
    case CUBLAS_STATUS_EXECUTION_FAILED:
      return kDeviceLost;
    default:
      return "; with CUBLASLT_LOG_LEVEL=5 the library prints each call and its values";
  }
}

}  // namespace

void fail_cuda(cudaError_t status, const char* expression, const char* file, int line) {
  static_cast<void>(cudaGetLastError());  // otherwise the next check would report it again
  fail("[cuda] ", expression, ": ", cudaGetErrorString(status), " (", cudaGetErrorName(status),
       ", ", file, ':', line, ')', hint(status));
}

void fail_cublas(cublasStatus_t status, const char* expression, const char* file, int line) {
  fail("[cublas] ", expression, ": ", words(status), " (status ", static_cast<int>(status), ", ",
       file, ':', line, ')', hint(status));
}

}  // namespace ringlet::cuda
