#include "ringlet/cuda/shared_library.h"

#include <dlfcn.h>

#include <sstream>

#include "cuda/build_settings.h"
#include "ringlet/core/base/error.h"

namespace ringlet::cuda {

SharedLibrary::SharedLibrary(const char* tag, const std::string& name, const char* folders,
                             const std::string& advice)
    : tag_(tag), library_(dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL)) {
  if (library_) return;
  const std::string missing = dlerror();
  std::istringstream list(folders);
  for (std::string folder; !library_ && std::getline(list, folder, ':');)
    library_ = dlopen((folder + '/' + name).c_str(), RTLD_NOW | RTLD_LOCAL);
  RINGLET_CHECK(library_, "[", tag, "] ", missing, "; ", advice);
}

void* SharedLibrary::address(const char* name) const {
  void* const found = dlsym(library_, name);
  RINGLET_CHECK(found, "[", tag_, "] the library has no ", name);
  return found;
}

const NcclLibrary& open_nccl() {
  static const NcclLibrary library = [] {
    const SharedLibrary file("nccl", "libnccl.so.2", RINGLET_CUDA_LIBRARIES,
                             "collectives of ranks on several GPUs need NCCL: install it, or name "
                             "its folder in LD_LIBRARY_PATH");
    int (*get_version)(int*) = nullptr;
    file.find(get_version, "ncclGetVersion");
    int version = 0;
    RINGLET_CHECK(get_version(&version) == 0, "[nccl] the library does not say its version");
    return NcclLibrary{file, static_cast<std::size_t>(version)};
  }();
  return library;
}

void check_nccl_version(std::size_t version) {
  constexpr std::size_t kOldest = 21900;
  if (version < kOldest)
    fail("[nccl] the library here is ", dotted(version), "; ", dotted(kOldest),
         " or newer is needed");
}

std::string dotted(std::size_t version) {
  return str(version / 10000, '.', version / 100 % 100, '.', version % 100);
}

}  // namespace ringlet::cuda
