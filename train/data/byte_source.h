// A stream of bytes.
#pragma once

#include <cstddef>
#include <functional>
#include <span>

namespace ringlet::train {

/// Fills the front of the span and returns the number of bytes; 0 at the end and after it.
using ByteSource = std::function<std::size_t(std::span<char>)>;

}  // namespace ringlet::train
