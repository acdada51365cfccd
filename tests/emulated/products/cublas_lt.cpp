// The emulated GPU's libcublasLt.so: the functions that ringlet loads.
#include <algorithm>
#include <cstring>

#include "product_call.h"

namespace {

using ringlet::emulated::Matrix;
using ringlet::emulated::ProductCall;

constexpr int kAlgorithms = 3;
constexpr std::size_t kWorkspaceOfSplit = 4096;  // of the algorithm that splits its sums

struct Description {
  cublasComputeType_t compute;
  cudaDataType scale;
  cublasOperation_t a = CUBLAS_OP_N, b = CUBLAS_OP_N;
  cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  void* vector = nullptr;
};

Description* description(cublasLtMatmulDesc_t handle) {
  return reinterpret_cast<Description*>(handle);
}
Matrix* matrix(cublasLtMatrixLayout_t handle) { return reinterpret_cast<Matrix*>(handle); }

template <class T, class Handle>
cublasStatus_t make(Handle* made, const T& value) {
  *made = reinterpret_cast<Handle>(new T(value));
  return CUBLAS_STATUS_SUCCESS;
}
template <class T, class Handle>
cublasStatus_t destroy(Handle ended) {
  delete reinterpret_cast<T*>(ended);
  return CUBLAS_STATUS_SUCCESS;
}

template <class T>
cublasStatus_t set(T& to, const void* value, std::size_t nbytes) {
  if (nbytes != sizeof(T)) return CUBLAS_STATUS_INVALID_VALUE;
  std::memcpy(&to, value, nbytes);
  return CUBLAS_STATUS_SUCCESS;
}

double scalar(const void* value, bool wide) {
  return wide ? *static_cast<const double*>(value)
              : static_cast<double>(*static_cast<const float*>(value));
}

Matrix at(const void* data, cublasLtMatrixLayout_t layout) {
  Matrix found = *matrix(layout);
  found.data = const_cast<void*>(data);
  return found;
}

// Whether the matrix shapes agree.
bool fits(const Description& of, const Matrix& a, const Matrix& b, const Matrix& d) {
  const bool ta = of.a != CUBLAS_OP_N, tb = of.b != CUBLAS_OP_N;
  return (ta ? a.columns : a.rows) == d.rows && (tb ? b.rows : b.columns) == d.columns &&
         (ta ? a.rows : a.columns) == (tb ? b.columns : b.rows) && a.ld >= a.rows &&
         b.ld >= b.rows && d.ld >= d.rows && a.batch == d.batch && b.batch == d.batch;
}

std::size_t workspace_of(int algorithm) { return algorithm == 2 ? kWorkspaceOfSplit : 0; }

// The algorithm's index; -1 if there is none for such elements.
int index_of(const cublasLtMatmulAlgo_t& algorithm, cudaDataType type) {
  const bool has =
      algorithm.data[0] < kAlgorithms && algorithm.data[1] == static_cast<std::uint64_t>(type);
  return has ? static_cast<int>(algorithm.data[0]) : -1;
}

}  // namespace

extern "C" {

cublasStatus_t cublasLtCreate(cublasLtHandle_t* handle) {
  static int made;
  ringlet_emulated_delay("cublasLtCreate");
  *handle = reinterpret_cast<cublasLtHandle_t>(&made);
  return CUBLAS_STATUS_SUCCESS;
}
std::size_t cublasLtGetVersion() { return CUBLAS_VERSION; }

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t* made, cublasComputeType_t compute,
                                        cudaDataType_t scale) {
  return make(made, Description{compute, scale});
}
cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t ended) {
  return destroy<Description>(ended);
}
cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t of,
                                              cublasLtMatmulDescAttributes_t attribute,
                                              const void* value, std::size_t nbytes) {
  Description& to = *description(of);
  switch (attribute) {
    case CUBLASLT_MATMUL_DESC_TRANSA:
      return set(to.a, value, nbytes);
    case CUBLASLT_MATMUL_DESC_TRANSB:
      return set(to.b, value, nbytes);
    case CUBLASLT_MATMUL_DESC_EPILOGUE:
      return set(to.epilogue, value, nbytes);
    case CUBLASLT_MATMUL_DESC_BIAS_POINTER:
      return set(to.vector, value, nbytes);
    default:
      return CUBLAS_STATUS_NOT_SUPPORTED;
  }
}

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t* made, cudaDataType type,
                                          std::uint64_t rows, std::uint64_t columns,
                                          std::int64_t ld) {
  return make(made, Matrix{nullptr, type, static_cast<std::int64_t>(rows),
                           static_cast<std::int64_t>(columns), ld});
}
cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t ended) {
  return destroy<Matrix>(ended);
}
cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t of,
                                                cublasLtMatrixLayoutAttribute_t attribute,
                                                const void* value, std::size_t nbytes) {
  if (attribute == CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT) return set(matrix(of)->batch, value, nbytes);
  if (attribute == CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET)
    return set(matrix(of)->stride, value, nbytes);
  return CUBLAS_STATUS_NOT_SUPPORTED;
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t* made) {
  return make(made, 0);
}
cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t ended) {
  return destroy<int>(ended);
}
cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t,
                                                    cublasLtMatmulPreferenceAttributes_t,
                                                    const void*, std::size_t) {
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t, cublasLtMatmulDesc_t of,
                                              cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                              cublasLtMatrixLayout_t, cublasLtMatrixLayout_t d,
                                              cublasLtMatmulPreference_t, int most,
                                              cublasLtMatmulHeuristicResult_t* found, int* count) {
  if (!fits(*description(of), *matrix(a), *matrix(b), *matrix(d)))
    return CUBLAS_STATUS_INVALID_VALUE;
  *count = std::min(most, kAlgorithms);
  for (int i = 0; i < *count; ++i) {
    found[i] = {};
    found[i].algo = {{static_cast<std::uint64_t>(i), static_cast<std::uint64_t>(matrix(a)->type)}};
    found[i].workspaceSize = workspace_of(i);
    found[i].state = CUBLAS_STATUS_SUCCESS;
  }
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulAlgoCheck(cublasLtHandle_t, cublasLtMatmulDesc_t of,
                                       cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                       cublasLtMatrixLayout_t, cublasLtMatrixLayout_t d,
                                       const cublasLtMatmulAlgo_t* algorithm,
                                       cublasLtMatmulHeuristicResult_t* result) {
  if (!fits(*description(of), *matrix(a), *matrix(b), *matrix(d)))
    return CUBLAS_STATUS_INVALID_VALUE;
  const int which = index_of(*algorithm, matrix(a)->type);
  if (which < 0) return CUBLAS_STATUS_NOT_SUPPORTED;
  result->workspaceSize = workspace_of(which);
  result->state = CUBLAS_STATUS_SUCCESS;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t, cublasLtMatmulDesc_t of, const void* alpha,
                              const void* a, cublasLtMatrixLayout_t a_layout, const void* b,
                              cublasLtMatrixLayout_t b_layout, const void* beta, const void* c,
                              cublasLtMatrixLayout_t, void* d, cublasLtMatrixLayout_t d_layout,
                              const cublasLtMatmulAlgo_t* algorithm, void* workspace,
                              std::size_t workspace_bytes, cudaStream_t stream) {
  const Description& asked = *description(of);
  const int which = index_of(*algorithm, matrix(a_layout)->type);
  if (c != d || which < 0 || workspace_bytes < workspace_of(which))
    return CUBLAS_STATUS_INVALID_VALUE;
  const bool wide = asked.scale == CUDA_R_64F;
  ProductCall call{at(a, a_layout), at(b, b_layout), at(d, d_layout)};
  call.a_transposed = asked.a != CUBLAS_OP_N, call.b_transposed = asked.b != CUBLAS_OP_N;
  call.wide = wide;
  call.tf32 = asked.compute == CUBLAS_COMPUTE_32F_FAST_TF32;
  call.alpha = scalar(alpha, wide), call.beta = scalar(beta, wide);
  call.epilogue = asked.epilogue;
  call.vector = asked.vector;
  call.algorithm = which;
  call.workspace = workspace;
  call.workspace_bytes = workspace_of(which);
  if (!fits(asked, call.a, call.b, call.d)) return CUBLAS_STATUS_INVALID_VALUE;
  ringlet_emulated_multiply(call, stream);
  return CUBLAS_STATUS_SUCCESS;
}
}
