// NCCL as a file: which one there is. Its functions are comm/transports/nccl_functions.h.
#pragma once

#include <cstddef>
#include <string>

#include "ringlet/cuda/shared_library.h"

namespace ringlet::cuda {

struct NcclLibrary {
  SharedLibrary file;
  std::size_t version;
};

/// Looked for by the first call. Error where there is none.
const NcclLibrary& open_nccl();

/// Error where a version, as NCCL counts, is one that collectives do not work with.
void check_nccl_version(std::size_t version);

/// "2.28.9" of 22809, as cuBLAS and NCCL count.
std::string dotted(std::size_t version);

}  // namespace ringlet::cuda
