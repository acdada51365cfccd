// cuBLASLt, found when the first product needs it: it has half a gigabyte, which programs that
// never multiply on a GPU need not load, nor their machines have.
#pragma once

#include <cublasLt.h>

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

}  // namespace ringlet::cuda
