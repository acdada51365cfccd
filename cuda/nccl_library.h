// NCCL's shared library and its version. Its functions are in comm/transports/nccl_functions.h.
#pragma once

#include <cstddef>
#include <string>

#include "ringlet/cuda/shared_library.h"

namespace ringlet::cuda {

struct NcclLibrary {
  SharedLibrary file;
  std::size_t version;
};

/// The first call searches the library. Error if there is none.
const NcclLibrary& open_nccl();

/// Error if collectives do not work with this version (NCCL's version code).
void check_nccl_version(std::size_t version);

/// "2.28.9" for 22809, the version code of cuBLAS and NCCL.
std::string dotted(std::size_t version);

}  // namespace ringlet::cuda
