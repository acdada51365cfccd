// Digits drawn with a pen that shakes: something for a small image classifier to learn.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "ringlet/train/data/draws.h"

namespace ringlet::train {

inline constexpr std::size_t kDigitSide = 28;

/// A drawing of `digit` (0 to 9): its strokes under a random affine map, with trembling control
/// points, a random pen width, ink strength and pixel noise. 28 x 28, row-major, 255 is full ink.
/// Uses +, -, *, / and sqrt alone, which IEEE 754 rounds exactly: the same pixels everywhere.
std::vector<std::uint8_t> draw_digit(int digit, Draws& draws);

}  // namespace ringlet::train
