#include "ringlet/cuda/cublas_lt.h"

#include <string>

#include "ringlet/core/error.h"
#include "ringlet/cuda/library.h"

namespace ringlet::cuda {
namespace {

CublasLt load_cublas_lt() {
  std::string missing;
  void* const library = open_library(str("libcublasLt.so.", CUBLAS_VER_MAJOR), missing);
  if (!library)
    fail("[cublas] ", missing, "; products on a GPU need cuBLAS of CUDA " RINGLET_CUDA_TOOLKIT,
         ": install it, or name its folder in LD_LIBRARY_PATH");
  CublasLt functions{};
#define RINGLET_FIND(function)                                         \
  RINGLET_CHECK(find_function(library, #function, functions.function), \
                "[cublas] the library has no " #function);
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
