// Drawn digits: MNIST's IDX files, and batches for convolutional networks. The format:
// http://yann.lecun.com/exdb/mnist, "FILE FORMATS FOR THE MNIST DATABASE".
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "ringlet/core/tensor/tensor.h"
#include "ringlet/train/data/loader.h"

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

/// MNIST's mean and standard deviation of pixels in [0, 1].
inline constexpr double kDigitMean = 0.1307;
inline constexpr double kDigitStd = 0.3081;

struct DigitBatch {
  Tensor images;     // (N, 1, height, width) f32, normalised
  Tensor labels;     // (N) i64
  Tensor positions;  // (N, 2) i32, position in the step and 0: keys of dropout masks

  DigitBatch to(Device device) const {
    return {images.to(device), labels.to(device), positions.to(device)};
  }
};

/// The collate function of digits, on cpu:0. A row beyond the last digit is Error.
DigitBatch collate_digits(const Digits& digits, const Rows& rows);

}  // namespace ringlet::train
