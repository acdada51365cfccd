// Every call of the CUDA libraries is checked: an error has the call, its place, CUDA's message and
// a hint.
#pragma once

#include <cublasLt.h>
#include <cuda_runtime_api.h>

namespace ringlet::cuda {

/// Throw Error: "[cuda] EXPRESSION: words (cudaErrorName, file:line); hint".
[[noreturn]] void fail_cuda(cudaError_t status, const char* expression, const char* file, int line);
/// The same for cuBLAS: "[cublas] EXPRESSION: words (status 3, file:line); hint".
[[noreturn]] void fail_cublas(cublasStatus_t status, const char* expression, const char* file,
                              int line);

}  // namespace ringlet::cuda

#define RINGLET_CUDA(expression)                                                        \
  do {                                                                                  \
    if (const cudaError_t ringlet_status = (expression); ringlet_status != cudaSuccess) \
        [[unlikely]]                                                                    \
      ::ringlet::cuda::fail_cuda(ringlet_status, #expression, __FILE__, __LINE__);      \
  } while (false)

#define RINGLET_CUBLAS(expression)                                                   \
  do {                                                                               \
    if (const cublasStatus_t ringlet_status = (expression);                          \
        ringlet_status != CUBLAS_STATUS_SUCCESS) [[unlikely]]                        \
      ::ringlet::cuda::fail_cublas(ringlet_status, #expression, __FILE__, __LINE__); \
  } while (false)
