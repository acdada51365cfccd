// Convolution as matrix products with implicit operands, loaded from the images tile by tile
// through shared memory (see convolution_plan.h).
#include "ringlet/core/ops/convolution.h"

#include "ringlet/core/device/dispatch.h"
#include "ringlet/cuda/convolution_plan.h"
#include "ringlet/cuda/convolution_tile.h"
#include "ringlet/cuda/launch.h"
#include "ringlet/cuda/reduce.cuh"
#include "ringlet/cuda/types.cuh"
#include "ringlet/cuda/workspace.h"

namespace ringlet::cuda {
namespace {

template <class S, bool kSkips>
struct Tiles {
  // Rows are padded by 16 bytes, so that columns lie in different banks.
  S a[kConvDepth][kConvTile + 4];
  S b[kConvDepth][kConvTile + 4];
  bool met[kSkips ? kConvDepth : 1][kConvTile];  // where b has an element
};

// Loads the tiles of both operands from `k` on, zeros beyond the ends.
template <class Product, class A, class B, class S>
__device__ __forceinline__ void load_tiles(Tiles<S, Product::kSkips>& tiles, const Product& p,
                                           const A* a, const B* b, std::int64_t row,
                                           std::int64_t column, std::int64_t k, std::int64_t end,
                                           const typename Product::Column (&columns)[kConvLoads]) {
  using LoadA = ConvLoad<true>;
  using LoadB = ConvLoad<Product::kInnerContiguous>;
  const int thread = static_cast<int>(threadIdx.x);
#pragma unroll
  for (int r = 0; r < kConvLoads; ++r) {
    const std::int64_t at = k + LoadA::k(thread, r), m = row + LoadA::other(thread, r);
    S value = 0;
    if (at < end && m < p.rows()) value = to_compute(a[p.a(m, at, p.inner_at(at))]);
    tiles.a[LoadA::k(thread, r)][LoadA::other(thread, r)] = value;
  }
#pragma unroll
  for (int r = 0; r < kConvLoads; ++r) {
    const std::int64_t at = k + LoadB::k(thread, r), n = column + LoadB::other(thread, r);
    const std::int64_t from =
        at < end && n < p.columns() ? p.b(p.inner_at(at), columns[r]) : std::int64_t{-1};
    tiles.b[LoadB::k(thread, r)][LoadB::other(thread, r)] = from < 0 ? S{0} : to_compute(b[from]);
    if constexpr (Product::kSkips)
      tiles.met[LoadB::k(thread, r)][LoadB::other(thread, r)] = from >= 0;
  }
}

// c = A B (+ bias of the row). Piece s of the inner dimension is written at c + s rows columns.
template <class Product, class A, class B, class C>
__global__ void __launch_bounds__(kConvThreads)
    multiply(Product p, const A* a, const B* b, C* c, const compute_t<C>* bias, ConvSplit split) {
  using S = compute_t<C>;
  __shared__ alignas(16) Tiles<S, Product::kSkips> tiles;
  const int thread = static_cast<int>(threadIdx.x);
  const int x = thread % 16 * kConvSide, y = thread / 16 * kConvSide;
  const std::int64_t row_tiles = (p.rows() + kConvTile - 1) / kConvTile;
  const std::int64_t all_tiles = row_tiles * ((p.columns() + kConvTile - 1) / kConvTile);
  for (std::int64_t unit = blockIdx.x; unit < all_tiles * split.count; unit += gridDim.x) {
    const std::int64_t piece = unit / all_tiles, tile = unit % all_tiles;
    const std::int64_t row = tile % row_tiles * kConvTile, column = tile / row_tiles * kConvTile;
    typename Product::Column columns[kConvLoads];
#pragma unroll
    for (int r = 0; r < kConvLoads; ++r) {
      const std::int64_t n = column + ConvLoad<Product::kInnerContiguous>::other(thread, r);
      columns[r] = p.column(n < p.columns() ? n : p.columns() - 1);
    }
    S sum[kConvSide][kConvSide] = {};
    const std::int64_t begin = piece * split.length;
    const std::int64_t end = begin + split.length < p.inner() ? begin + split.length : p.inner();
    for (std::int64_t k = begin; k < end; k += kConvDepth) {
      load_tiles(tiles, p, a, b, row, column, k, end, columns);
      __syncthreads();
#pragma unroll
      for (int depth = 0; depth < kConvDepth; ++depth) {
        S left[kConvSide], right[kConvSide];
        bool met[kConvSide];
#pragma unroll
        for (int i = 0; i < kConvSide; ++i) {
          left[i] = tiles.a[depth][y + i];
          right[i] = tiles.b[depth][x + i];
          met[i] = true;
          if constexpr (Product::kSkips) met[i] = tiles.met[depth][x + i];
        }
#pragma unroll
        for (int i = 0; i < kConvSide; ++i)
#pragma unroll
          for (int j = 0; j < kConvSide; ++j)
            if (met[j]) sum[i][j] = ::fma(left[i], right[j], sum[i][j]);
      }
      __syncthreads();
    }
    for (int j = 0; j < kConvSide; ++j) {
      const std::int64_t n = column + x + j;
      if (n >= p.columns()) break;
      const auto at = p.column(n);
      for (int i = 0; i < kConvSide; ++i) {
        const std::int64_t m = row + y + i;
        if (m >= p.rows()) break;
        c[piece * p.rows() * p.columns() + p.c(m, n, at)] =
            from_compute<C>(bias ? sum[i][j] + bias[m] : sum[i][j]);
      }
    }
  }
}

// out = parts[0] + parts[1] + … (+ out)
template <class S>
__global__ void add_pieces(S* out, const S* parts, std::int64_t n, std::int64_t count, bool add) {
  grid_stride(n, [&](std::int64_t i) {
    S sum = parts[i];
    for (std::int64_t k = 1; k < count; ++k) sum += parts[k * n + i];
    out[i] = add ? out[i] + sum : sum;
  });
}

// One block per channel of grad (B, O, P).
template <class T>
__global__ void sum_channels(compute_t<T>* out, const T* grad, std::int64_t batch,
                             std::int64_t channels, Divider pixels, bool add) {
  using S = compute_t<T>;
  __shared__ S parts[kWarp];
  for (std::int64_t o = blockIdx.x; o < channels; o += gridDim.x) {
    S sum = 0;
#pragma unroll 4
    for (std::int64_t i = threadIdx.x; i < batch * pixels.divisor(); i += blockDim.x) {
      const Division at = divide(i, pixels);
      sum += to_compute(grad[(at.quotient * channels + o) * pixels.divisor() + at.remainder]);
    }
    sum = block_sum(sum, parts);
    if (threadIdx.x == 0) out[o] = add ? out[o] + sum : sum;
  }
}

// ---- launchers ----------------------------------------------------------------------------

template <class A, class B, class C, class Product>
void run(const char* name, const Product& p, const void* a, const void* b, void* c,
         const void* bias, const ConvSplit& split, Device device) {
  launch(name, device, multiply<Product, A, B, C>,
         grid_for(conv_tiles(p.rows(), p.columns()) * split.count, 1), kConvThreads, 0, p,
         static_cast<const A*>(a), static_cast<const B*>(b), static_cast<C*>(c),
         static_cast<const compute_t<C>*>(bias), split);
}

template <class Product>
ConvSplit whole(const Product& p) {
  return {1, std::max<std::int64_t>(1, p.inner())};
}

template <class T>
void conv2d(const Conv2dArgs& args, Device device) {
  const ForwardProduct product{Conv2dPlan(args.sizes)};
  run<compute_t<T>, T, T>("conv2d", product, args.weight, args.x, args.y, args.bias, whole(product),
                          device);
}

template <class T>
void conv2d_backward_input(const Conv2dBackwardInputArgs& args, Device device) {
  const InputGradientProduct product{Conv2dPlan(args.sizes)};
  run<compute_t<T>, T, T>("conv2d_backward_input", product, args.weight, args.grad, args.grad_x,
                          nullptr, whole(product), device);
}

template <class T>
void conv2d_backward_weight(const Conv2dBackwardWeightArgs& args, Device device) {
  const WeightGradientProduct product{Conv2dPlan(args.sizes)};
  const std::int64_t n = product.rows() * product.columns();
  const ConvSplit split = split_inner(product.rows(), product.columns(), product.inner());
  using S = compute_t<T>;
  const Workspace parts(device, static_cast<std::size_t>(split.count * n) * sizeof(S));
  run<T, T, S>("conv2d_backward_weight", product, args.grad, args.x, parts.data(), nullptr, split,
               device);
  launch("conv2d_backward_weight", device, add_pieces<S>, grid_for(n), kThreads, 0,
         static_cast<S*>(args.grad_weight), parts.as<S>(), n, split.count, args.beta != 0);
}

template <class T>
void conv2d_backward_bias(const Conv2dBackwardBiasArgs& args, Device device) {
  launch("conv2d_backward_bias", device, sum_channels<T>, grid_for(args.channels, 1), 1024, 0,
         static_cast<compute_t<T>*>(args.grad_bias), static_cast<const T*>(args.grad), args.batch,
         args.channels, Divider(args.pixels), args.beta != 0);
}

}  // namespace

void register_convolution() {
  RINGLET_SET_FLOATING(cuda, conv2d);
  RINGLET_SET_FLOATING(cuda, conv2d_backward_input);
  RINGLET_SET_FLOATING(cuda, conv2d_backward_weight);
  RINGLET_SET_FLOATING(cuda, conv2d_backward_bias);
}

}  // namespace ringlet::cuda
