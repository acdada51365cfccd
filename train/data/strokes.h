// Digits drawn with a trembling pen: training data for a small image classifier.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "ringlet/train/data/draws.h"

namespace ringlet::train {

inline constexpr std::size_t kDigitSide = 28;

/// A drawing of `digit` (0 to 9): its strokes under a random affine map, with trembling control
/// points. Pen width, ink strength and pixel noise are random, too. 28 x 28, row-major, 255 is full
/// ink. Uses only +, -, *, / and sqrt, which IEEE 754 rounds exactly: the same pixels everywhere.
std::vector<std::uint8_t> draw_digit(int digit, Draws& draws);

}  // namespace ringlet::train
