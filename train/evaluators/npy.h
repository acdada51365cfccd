// NumPy's .npy files, format version 1.0.
// Definition: numpy.org/doc/stable/reference/generated/numpy.lib.format.html.
#pragma once

#include <filesystem>

#include "ringlet/core/io/file.h"
#include "ringlet/core/tensor/tensor.h"

namespace ringlet::train {

/// Writes a matrix of f32 in pieces, so that it need not be in memory whole. The file appears at
/// commit(); without it nothing is left behind.
class NpyWriter {
 public:
  NpyWriter(const std::filesystem::path& path, std::int64_t rows, std::int64_t columns);

  /// The next rows, converted to f32. Any device.
  void write(const Tensor& rows);
  /// Throws when elements are missing.
  void commit();

 private:
  AtomicFile file_;
  std::int64_t missing_;  // elements
};

}  // namespace ringlet::train
