#include "ringlet/cuda/cublas_lt.h"

#include "cuda/build_settings.h"
#include "ringlet/core/base/error.h"
#include "ringlet/cuda/shared_library.h"

namespace ringlet::cuda {
namespace {

CublasLt load_cublas_lt() {
  const SharedLibrary library("cublas", str("libcublasLt.so.", CUBLAS_VER_MAJOR),
                              RINGLET_CUDA_LIBRARIES,
                              "products on a GPU need cuBLAS of CUDA " RINGLET_CUDA_TOOLKIT
                              ": install it, or name its folder in LD_LIBRARY_PATH");
  CublasLt functions{};
#define RINGLET_FIND(function) library.find(functions.function, #function);
  RINGLET_CUBLASLT_FUNCTIONS(RINGLET_FIND)
#undef RINGLET_FIND
  return functions;
}

}  // namespace

const CublasLt& cublas_lt() {
  static const CublasLt functions = load_cublas_lt();
  return functions;
}

}  // namespace ringlet::cuda
