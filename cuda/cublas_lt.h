// cuBLASLt, found when the first product needs it: it has half a gigabyte, which programs that
// never multiply on a GPU need not load, nor their machines have.
#pragma once

#include <cublasLt.h>

#include <memory>
#include <type_traits>

#define RINGLET_CUBLASLT_FUNCTIONS(X)     \
  X(cublasLtCreate)                       \
  X(cublasLtGetVersion)                   \
  X(cublasLtMatmul)                       \
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

/// Looks where programs look for libraries, then in the toolkit of the build. Error where there is
/// none of the version that this was built with.
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
/// Owns what a cublasLtMatmulDesc_t, cublasLtMatrixLayout_t or cublasLtMatmulPreference_t points
/// to.
template <class Pointer>
using CublasLtOwner = std::unique_ptr<std::remove_pointer_t<Pointer>, CublasLtDestroy>;

}  // namespace ringlet::cuda
