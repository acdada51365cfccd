// Batches of drawn digits for convolutional networks.
#pragma once

#include "ringlet/core/tensor/tensor.h"
#include "ringlet/train/data/idx.h"
#include "ringlet/train/data/loader.h"

namespace ringlet::train {

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
