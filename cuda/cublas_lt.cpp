#include "ringlet/cuda/cublas_lt.h"

#include <dlfcn.h>

#include <sstream>
#include <string>

#include "ringlet/core/error.h"

namespace ringlet::cuda {
namespace {

void* open_cublas_lt() {
  const std::string name = str("libcublasLt.so.", CUBLAS_VER_MAJOR);
  if (void* found = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL)) return found;
  const std::string missing = dlerror();
  std::istringstream folders(RINGLET_CUDA_LIBRARIES);
  for (std::string folder; std::getline(folders, folder, ':');)
    if (void* found = dlopen((folder + '/' + name).c_str(), RTLD_NOW | RTLD_LOCAL)) return found;
  fail("[cublas] ", missing, "; products on a GPU need cuBLAS of CUDA " RINGLET_CUDA_TOOLKIT,
       ": install it, or name its folder in LD_LIBRARY_PATH");
}

CublasLt load_cublas_lt() {
  void* const library = open_cublas_lt();
  CublasLt functions{};
  const auto find = [&](auto& function, const char* name) {
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(library, name));
    RINGLET_CHECK(function, "[cublas] the library has no ", name);
  };
#define RINGLET_FIND(function) find(functions.function, #function);
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
