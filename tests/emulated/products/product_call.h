// A matrix product on its way from cuBLASLt to the emulated GPU. cuBLASLt is a shared library,
// loaded by name; it calls back into the program.
#pragma once

#include <cublasLt.h>

#include <cstdint>

namespace ringlet::emulated {

/// A column-major matrix, or a batch of them.
struct Matrix {
  void* data = nullptr;
  cudaDataType type = CUDA_R_32F;
  std::int64_t rows = 0, columns = 0, ld = 0;
  std::int32_t batch = 1;
  std::int64_t stride = 0;
};

/// d = alpha * op(a) * op(b) + beta * d, then the epilogue.
struct ProductCall {
  Matrix a, b, d;
  bool a_transposed = false, b_transposed = false;
  bool wide = false;  // sums in f64
  bool tf32 = false;
  double alpha = 1, beta = 0;
  cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  void* vector = nullptr;  // the bias (read) or the sums (written), of d's type
  int algorithm = 0;
  void* workspace = nullptr;
  std::size_t workspace_bytes = 0;
};

}  // namespace ringlet::emulated

/// Delays a call of the library as Streams::delay_call() does.
extern "C" void ringlet_emulated_delay(const char* name);
/// Enqueues the product.
extern "C" void ringlet_emulated_multiply(const ringlet::emulated::ProductCall& call,
                                          cudaStream_t stream);
