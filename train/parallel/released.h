// Tensors whose bytes are elsewhere for now.
#pragma once

#include <memory>

#include "ringlet/core/storage.h"

namespace ringlet::train {

/// Storage of `nbytes` that reads as NaN in every floating dtype, costs a few pages whatever its
/// size, and cannot be written. Where a device cannot offer that, touching it is an error.
std::shared_ptr<Storage> released_storage(std::size_t nbytes, Device device);

}  // namespace ringlet::train
