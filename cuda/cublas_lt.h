// cuBLASLt, loaded by the first product. The library has half a gigabyte; programs that never
// multiply on a GPU need not load or install it.
#pragma once

#include <cublasLt.h>

#include <memory>
#include <type_traits>

#define RINGLET_CUBLASLT_FUNCTIONS(X)     \
  X(cublasLtCreate)                       \
  X(cublasLtGetVersion)                   \
  X(cublasLtMatmul)                       \
  X(cublasLtMatmulAlgoCheck)              \
  X(cublasLtMatmulAlgoGetHeuristic)       \
  X(cublasLtMatmulDescCreate)             \
  X(cublasLtMatmulDescDestroy)            \
  X(cublasLtMatmulDescSetAttribute)       \
  X(cublasLtMatmulPreferenceCreate)       \
  X(cublasLtMatmulPreferenceDestroy)      \
  X(cublasLtMatmulPreferenceSetAttribute) \
  X(cublasLtMatrixLayoutCreate)           \
  X(cublasLtMatrixLayoutDestroy)          \
  X(cublasLtMatrixLayoutSetAttribute)

namespace ringlet::cuda {

struct CublasLt {
#define RINGLET_MEMBER(function) decltype(&::function) function;
  RINGLET_CUBLASLT_FUNCTIONS(RINGLET_MEMBER)
#undef RINGLET_MEMBER
};

/// Searches the default library path, then the toolkit of the build. Error if no library of the
/// build's version is found.
const CublasLt& cublas_lt();

struct CublasLtDestroy {
  void operator()(cublasLtMatmulDesc_t product) const noexcept {
    cublas_lt().cublasLtMatmulDescDestroy(product);
  }
  void operator()(cublasLtMatrixLayout_t layout) const noexcept {
    cublas_lt().cublasLtMatrixLayoutDestroy(layout);
  }
  void operator()(cublasLtMatmulPreference_t preference) const noexcept {
    cublas_lt().cublasLtMatmulPreferenceDestroy(preference);
  }
};
/// Owns a cublasLtMatmulDesc_t, cublasLtMatrixLayout_t or cublasLtMatmulPreference_t.
template <class Pointer>
using CublasLtOwner = std::unique_ptr<std::remove_pointer_t<Pointer>, CublasLtDestroy>;

}  // namespace ringlet::cuda
