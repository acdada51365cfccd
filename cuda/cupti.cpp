#include "ringlet/cuda/cupti.h"

#include <cuda_runtime_api.h>

#include "cuda/build_settings.h"
#include "ringlet/core/base/error.h"
#include "ringlet/cuda/shared_library.h"

namespace ringlet::cuda {
namespace {

Cupti load_cupti() {
  const SharedLibrary library("cupti", str("libcupti.so.", CUDART_VERSION / 1000),
                              RINGLET_CUPTI_LIBRARIES,
                              "records of what a GPU does need CUPTI of CUDA " RINGLET_CUDA_TOOLKIT
                              ": install it, or name its folder in LD_LIBRARY_PATH");
  Cupti functions{};
#define RINGLET_FIND(function) library.find(functions.function, #function);
  RINGLET_CUPTI_FUNCTIONS(RINGLET_FIND)
#undef RINGLET_FIND
  return functions;
}

}  // namespace

const Cupti& cupti() {
  static const Cupti functions = load_cupti();
  return functions;
}

}  // namespace ringlet::cuda
