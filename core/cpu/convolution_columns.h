// The patches of an image as the columns of a matrix (im2col), in strips of output rows.
#pragma once

#include "ringlet/core/cpu/simd.h"
#include "ringlet/core/ops/convolution.h"

namespace ringlet::cpu::RINGLET_ISA {
namespace {

constexpr std::int64_t kStripElements = 1 << 18;

/// Output rows [row, row + rows): columns of y and of the patches' matrix.
struct Strip {
  std::int64_t row;
  std::int64_t rows;
};

RINGLET_INLINE std::int64_t patch_of(const Conv2dSizes& s) {
  return s.channels * s.kernel_height * s.kernel_width;
}

template <class Body>
void for_strips(const Conv2dSizes& s, Body body) {
  const std::int64_t fit = kStripElements / (patch_of(s) * s.out_width);
  const std::int64_t step = fit < 1 ? 1 : fit;
  for (std::int64_t row = 0; row < s.out_height; row += step)
    body(Strip{row, row + step < s.out_height ? step : s.out_height - row});
}

RINGLET_INLINE std::int64_t strip_elements(const Conv2dSizes& s) {
  const std::int64_t whole = patch_of(s) * s.out_height * s.out_width;
  const std::int64_t row = patch_of(s) * s.out_width;
  const std::int64_t strip = row > kStripElements ? row : kStripElements;
  return whole < strip ? whole : strip;
}

// One position (channel, ky, kx) of the kernel, and the outputs for which it is inside the image.
struct Tap {
  std::int64_t channel, ky, kx;
  std::int64_t begin, end;  // output columns

  Tap(const Conv2dSizes& s, std::int64_t k)
      : channel(k / (s.kernel_height * s.kernel_width)),
        ky(k / s.kernel_width % s.kernel_height),
        kx(k % s.kernel_width) {
    const std::int64_t left = s.padding - kx, right = s.width - 1 + left;
    begin = left > 0 ? (left + s.stride - 1) / s.stride : 0;
    end = right < 0 ? 0 : right / s.stride + 1;
    if (end > s.out_width) end = s.out_width;
    if (begin > end) begin = end;
  }

  /// The input row for output row `oy`; may be outside the image.
  std::int64_t input_row(const Conv2dSizes& s, std::int64_t oy) const {
    return oy * s.stride - s.padding + ky;
  }
  std::int64_t input_column(const Conv2dSizes& s, std::int64_t ox) const {
    return ox * s.stride - s.padding + kx;
  }
};

template <class T>
RINGLET_INLINE void clear(T* out, std::int64_t n) {
  memset(static_cast<void*>(out), 0, static_cast<size_t>(n) * sizeof(T));
}

// x (C, H, W) -> columns (C kh kw, rows ow)
template <class T>
void im2col(const Conv2dSizes& s, const Strip& strip, const T* x, T* columns) {
  for (std::int64_t k = 0; k < patch_of(s); ++k) {
    const Tap tap(s, k);
    for (std::int64_t r = 0; r < strip.rows; ++r, columns += s.out_width) {
      const std::int64_t row = tap.input_row(s, strip.row + r);
      if (row < 0 || row >= s.height || tap.begin == tap.end) {
        clear(columns, s.out_width);
        continue;
      }
      const T* in = x + (tap.channel * s.height + row) * s.width + tap.input_column(s, tap.begin);
      clear(columns, tap.begin);
      if (s.stride == 1) {
        memcpy(static_cast<void*>(columns + tap.begin), in,
               static_cast<size_t>(tap.end - tap.begin) * sizeof(T));
      } else {
        for (std::int64_t i = tap.begin; i < tap.end; ++i)
          columns[i] = in[(i - tap.begin) * s.stride];
      }
      clear(columns + tap.end, s.out_width - tap.end);
    }
  }
}

// The transpose of im2col: adds columns (C kh kw, rows ow) to x (C, H, W).
template <class A>
void add_col2im(const Conv2dSizes& s, const Strip& strip, const A* columns, A* x) {
  for (std::int64_t k = 0; k < patch_of(s); ++k) {
    const Tap tap(s, k);
    for (std::int64_t r = 0; r < strip.rows; ++r, columns += s.out_width) {
      const std::int64_t row = tap.input_row(s, strip.row + r);
      if (row < 0 || row >= s.height) continue;
      A* out = x + (tap.channel * s.height + row) * s.width + tap.input_column(s, tap.begin);
      const A* in = columns + tap.begin;
      const std::int64_t n = tap.end - tap.begin;
      if (s.stride == 1) {
        for (std::int64_t i = 0; i < n; ++i) out[i] += in[i];
      } else {
        for (std::int64_t i = 0; i < n; ++i) out[i * s.stride] += in[i];
      }
    }
  }
}

}  // namespace
}  // namespace ringlet::cpu::RINGLET_ISA
