// Convolution as matrix products: an image's patches become the columns of a matrix (im2col). It is
// built for a strip of output rows at a time and so stays in the cache.
#include "ringlet/core/ops/convolution.h"

#include "ringlet/core/cpu/gemm_product.h"
#include "ringlet/core/cpu/loops.h"
#include "ringlet/core/cpu/scratch.h"
#include "ringlet/core/cpu/simd.h"
#include "ringlet/core/device/dispatch.h"

namespace ringlet::cpu::RINGLET_ISA {

// The patches of an image as the columns of a matrix (im2col), in strips of output rows.

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

template <class T>
constexpr DType parameters = dtype_of<scalar_t<T>>();

// ---- forward ------------------------------------------------------------------------------

// The destination of a block of the product; rows are output channels.
template <class T>
struct Output {
  T* y;
  const scalar_t<T>* bias;  // may be null
  std::int64_t ld;
};

template <class T>
void store_block(const void* context, const GemmBlock<scalar_t<T>>& block) {
  const auto& out = *static_cast<const Output<T>*>(context);
  for (std::int64_t r = 0; r < block.rows; ++r) {
    const scalar_t<T>* from = block.data + r * block.ld;
    T* to = out.y + (block.row + r) * out.ld + block.column;
    const vector_t<T> bias = splat(out.bias ? out.bias[block.row + r] : scalar_t<T>(0));
    for_vectors<T>(block.columns, [&](std::int64_t i, std::int64_t count) {
      store_at(to, i, count, load_at<scalar_t<T>>(from, i, count) + bias);
    });
  }
}

template <class T>
void conv2d(const Conv2dArgs& args, Device device) {
  const Conv2dSizes& s = args.sizes;
  const std::int64_t patch = patch_of(s), pixels = s.out_height * s.out_width;
  parallel_for(device, s.batch, 1, [&](std::int64_t begin, std::int64_t end) {
    const Scratch scratch(static_cast<size_t>(strip_elements(s)) * sizeof(T));
    T* columns = scratch.as<T>();
    for (std::int64_t n = begin; n < end; ++n)
      for_strips(s, [&](const Strip& strip) {
        const T* x = static_cast<const T*>(args.x) + n * s.channels * s.height * s.width;
        im2col(s, strip, x, columns);
        const Output<T> out{
            static_cast<T*>(args.y) + n * s.out_channels * pixels + strip.row * s.out_width,
            static_cast<const scalar_t<T>*>(args.bias), pixels};
        const std::int64_t width = strip.rows * s.out_width;
        gemm(device, GemmProduct<scalar_t<T>>{s.out_channels,
                                              width,
                                              patch,
                                              {args.weight, parameters<T>, patch, false},
                                              {columns, args.dtype, width, false},
                                              {store_block<T>, &out}});
      });
  });
}

// ---- backward -----------------------------------------------------------------------------

template <class T>
void backward_input_image(const Conv2dBackwardInputArgs& args, std::int64_t n, scalar_t<T>* columns,
                          scalar_t<T>* image, Device device) {
  const Conv2dSizes& s = args.sizes;
  const std::int64_t patch = patch_of(s), pixels = s.out_height * s.out_width;
  const std::int64_t size = s.channels * s.height * s.width;
  clear(image, size);
  for_strips(s, [&](const Strip& strip) {
    const T* grad =
        static_cast<const T*>(args.grad) + n * s.out_channels * pixels + strip.row * s.out_width;
    const std::int64_t width = strip.rows * s.out_width;
    gemm(device, patch, width, s.out_channels, {args.weight, parameters<T>, patch, true},
         {grad, args.dtype, pixels, false}, 0.0, columns, parameters<T>, width);
    add_col2im(s, strip, columns, image);
  });
  if constexpr (sizeof(T) != sizeof(scalar_t<T>)) {
    copy_row(static_cast<T*>(args.grad_x) + n * size, image, size);
  }
}

template <class T>
void conv2d_backward_input(const Conv2dBackwardInputArgs& args, Device device) {
  using A = scalar_t<T>;
  const Conv2dSizes& s = args.sizes;
  const std::int64_t size = s.channels * s.height * s.width;
  constexpr bool in_place = sizeof(T) == sizeof(A);
  parallel_for(device, s.batch, 1, [&](std::int64_t begin, std::int64_t end) {
    const Scratch columns(static_cast<size_t>(strip_elements(s)) * sizeof(A));
    const Scratch image(in_place ? 0 : static_cast<size_t>(size) * sizeof(A));
    for (std::int64_t n = begin; n < end; ++n)
      backward_input_image<T>(args, n, columns.as<A>(),
                              in_place ? static_cast<A*>(args.grad_x) + n * size : image.as<A>(),
                              device);
  });
}

// Images are processed sequentially: the sum has the order of the batch.
template <class T>
void conv2d_backward_weight(const Conv2dBackwardWeightArgs& args, Device device) {
  const Conv2dSizes& s = args.sizes;
  const std::int64_t patch = patch_of(s), pixels = s.out_height * s.out_width;
  const Scratch scratch(static_cast<size_t>(strip_elements(s)) * sizeof(T));
  T* columns = scratch.as<T>();
  double beta = args.beta;
  for (std::int64_t n = 0; n < s.batch; ++n)
    for_strips(s, [&](const Strip& strip) {
      im2col(s, strip, static_cast<const T*>(args.x) + n * s.channels * s.height * s.width,
             columns);
      const T* grad =
          static_cast<const T*>(args.grad) + n * s.out_channels * pixels + strip.row * s.out_width;
      const std::int64_t width = strip.rows * s.out_width;
      gemm(device, s.out_channels, patch, width, {grad, args.dtype, pixels, false},
           {columns, args.dtype, width, true}, beta, args.grad_weight, parameters<T>, patch);
      beta = 1;
    });
}

template <class T>
void conv2d_backward_bias(const Conv2dBackwardBiasArgs& args, Device device) {
  for_each(device, args.channels, 1, [&](std::int64_t o) {
    vector_t<T> total{};
    for (std::int64_t n = 0; n < args.batch; ++n) {
      const T* row = static_cast<const T*>(args.grad) + (n * args.channels + o) * args.pixels;
      for_vectors<T>(args.pixels,
                     [&](std::int64_t i, std::int64_t count) { total += load_at(row, i, count); });
    }
    auto& out = static_cast<scalar_t<T>*>(args.grad_bias)[o];
    out = args.beta == 0 ? sum(total) : out + sum(total);
  });
}

}  // namespace

void register_convolution() {
  RINGLET_SET_FLOATING(cpu, conv2d);
  RINGLET_SET_FLOATING(cpu, conv2d_backward_input);
  RINGLET_SET_FLOATING(cpu, conv2d_backward_weight);
  RINGLET_SET_FLOATING(cpu, conv2d_backward_bias);
}

}  // namespace ringlet::cpu::RINGLET_ISA
