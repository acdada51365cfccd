// NumPy's .npy files, format version 1.0.
// Definition: numpy.org/doc/stable/reference/generated/numpy.lib.format.html.
#pragma once

#include <filesystem>

#include "ringlet/core/io/file.h"
#include "ringlet/core/tensor/tensor.h"

namespace ringlet::train {

/// Writes an array in pieces, so that it need not be in memory whole. The file appears at commit();
/// without it nothing is left behind.
class NpyWriter {
 public:
  /// Any shape and dtype; bf16, which NumPy lacks, is written as f32.
  NpyWriter(const std::filesystem::path& path, const Shape& shape, DType dtype = DType::f32);

  /// The next elements in row-major order, converted to the file's dtype. Any device.
  void write(const Tensor& elements);
  /// Throws when elements are missing.
  void commit();

 private:
  AtomicFile file_;
  DType dtype_;
  std::int64_t missing_;
};

void write_npy(const std::filesystem::path& path, const Tensor& tensor);

/// Reads a little-endian array of floats, doubles, halves, int32, int64 or bytes in C order as a
/// tensor of the same dtype on cpu:0. Anything else, and data of another size than the header
/// announces, is InputError.
Tensor read_npy(const std::filesystem::path& path);

}  // namespace ringlet::train
