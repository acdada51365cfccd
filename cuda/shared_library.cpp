#include "ringlet/cuda/shared_library.h"

#include <dlfcn.h>

#include <sstream>

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

}  // namespace ringlet::cuda
