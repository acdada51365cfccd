// Reads a matrix of f32 that NpyWriter has written.
#pragma once

#include <doctest/doctest.h>

#include <cstdio>
#include <cstring>
#include <filesystem>
#include <string>

#include "ringlet/core/io/file.h"
#include "ringlet/core/tensor/tensor.h"

inline ringlet::Tensor read_npy(const std::filesystem::path& path) {
  const std::string bytes = ringlet::read_file(path);
  long rows = -1, columns = -1;
  const std::size_t end = bytes.find('\n') + 1, shape = bytes.find("'shape'");
  REQUIRE(bytes.find("'<f4'") < end);
  REQUIRE(shape < end);
  REQUIRE_EQ(std::sscanf(bytes.c_str() + shape, "'shape': (%ld, %ld)", &rows, &columns), 2);
  ringlet::Tensor matrix = ringlet::empty({rows, columns}, ringlet::DType::f32, {});
  REQUIRE_EQ(bytes.size() - end, matrix.nbytes());
  std::memcpy(matrix.mutable_bytes(), bytes.data() + end, matrix.nbytes());
  return matrix;
}
