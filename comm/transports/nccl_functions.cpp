#include "ringlet/comm/transports/nccl_functions.h"

#include "ringlet/cuda/nccl_library.h"

namespace ringlet::comm {
namespace {

const NcclFunctions* in_their_place = nullptr;

NcclFunctions load() {
  const cuda::NcclLibrary& library = cuda::open_nccl();
  cuda::check_nccl_version(library.version);
  NcclFunctions functions{};
#define RINGLET_FIND(function) library.file.find(functions.function, #function);
  RINGLET_NCCL_FUNCTIONS(RINGLET_FIND)
#undef RINGLET_FIND
  return functions;
}

}  // namespace

const NcclFunctions& nccl() {
  if (in_their_place) return *in_their_place;
  static const NcclFunctions functions = load();
  return functions;
}

void set_nccl(const NcclFunctions* functions) { in_their_place = functions; }

}  // namespace ringlet::comm
