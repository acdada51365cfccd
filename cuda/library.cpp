#include "ringlet/cuda/library.h"

#include <dlfcn.h>

#include <sstream>

namespace ringlet::cuda {

void* open_library(const std::string& name, std::string& missing) {
  if (void* found = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL)) return found;
  missing = dlerror();
  std::istringstream folders(RINGLET_CUDA_LIBRARIES);
  for (std::string folder; std::getline(folders, folder, ':');)
    if (void* found = dlopen((folder + '/' + name).c_str(), RTLD_NOW | RTLD_LOCAL)) return found;
  return nullptr;
}

void* find_function(void* library, const char* name) { return dlsym(library, name); }

}  // namespace ringlet::cuda
