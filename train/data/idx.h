// MNIST's IDX files: http://yann.lecun.com/exdb/mnist, "FILE FORMATS FOR THE MNIST DATABASE".
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace ringlet::train {

/// An array of unsigned bytes, row-major.
struct IdxArray {
  std::vector<std::size_t> shape;
  std::vector<std::uint8_t> data;
};

/// Reads an IDX file of unsigned bytes, plain or gzip. A wrong magic number or element type, and
/// data shorter or longer than the header announces, are InputError.
IdxArray read_idx(const std::filesystem::path& path);
/// The bytes of an IDX file.
std::string idx_bytes(const IdxArray& array);

/// Drawn digits with their classes.
struct Digits {
  std::size_t count = 0;
  std::size_t height = 0;
  std::size_t width = 0;
  std::vector<std::uint8_t> pixels;  // (count, height, width), 0 background, 255 ink
  std::vector<std::uint8_t> labels;  // (count), 0 to 9
};

/// Reads a pair of MNIST files. Different counts, no digits at all and labels above 9 are
/// InputError.
Digits read_digits(const std::filesystem::path& images, const std::filesystem::path& labels);

}  // namespace ringlet::train
