#include "ringlet/cuda/nccl_library.h"

#include "ringlet/core/error.h"
#include "ringlet/cuda/library.h"

namespace ringlet::cuda {

const NcclLibrary& open_nccl() {
  static const NcclLibrary library = [] {
    std::string missing;
    void* const handle = open_library("libnccl.so.2", missing);
    if (!handle)
      fail("[nccl] ", missing,
           "; collectives of ranks on several GPUs need NCCL: install it, or "
           "name its folder in LD_LIBRARY_PATH");
    int (*get_version)(int*) = nullptr;
    int version = 0;
    RINGLET_CHECK(
        find_function(handle, "ncclGetVersion", get_version) && get_version(&version) == 0,
        "[nccl] the library does not say its version");
    return NcclLibrary{handle, static_cast<std::size_t>(version)};
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
