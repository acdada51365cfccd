// Convolution as matrix products: an image's patches become the columns of a matrix (im2col). It is
// built for a strip of output rows at a time and so stays in the cache.
#include "ringlet/core/ops/convolution.h"

#include "ringlet/core/cpu/convolution_columns.h"
#include "ringlet/core/cpu/dispatch.h"
#include "ringlet/core/cpu/gemm.h"
#include "ringlet/core/cpu/loops.h"
#include "ringlet/core/cpu/scratch.h"

namespace ringlet::cpu::RINGLET_ISA {
namespace {

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
  RINGLET_SET_FLOATING(conv2d);
  RINGLET_SET_FLOATING(conv2d_backward_input);
  RINGLET_SET_FLOATING(conv2d_backward_weight);
  RINGLET_SET_FLOATING(conv2d_backward_bias);
}

}  // namespace ringlet::cpu::RINGLET_ISA
