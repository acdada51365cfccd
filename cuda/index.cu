#include "ringlet/core/ops/index.h"

#include "ringlet/cuda/launch.h"
#include "ringlet/cuda/scatter_places.h"
#include "ringlet/cuda/strided.h"
#include "ringlet/cuda/words.h"

namespace ringlet::cuda {

// How a permutation runs: whole rows as words, or tiles transposed in shared memory.

inline constexpr int kPermuteTile = 32;

/// out[.., a, .., b] = in[.., b, .., a]: the input is contiguous along a, the output along b.
struct TurnedTiles {
  std::int64_t a_size, b_size;
  std::int64_t a_out_stride, b_in_stride;
  std::int64_t others;  // elements of the other dimensions
  Divider a_tiles, b_tiles;
  Strided<2> places;  // of the other dimensions, in the input and the output

  RINGLET_HOST_DEVICE std::int64_t units() const {
    return others * a_tiles.divisor() * b_tiles.divisor();
  }
};

/// One tile: its beginning along a and b, and its offset in the input and the output.
struct TurnedTile {
  std::int64_t a, b;
  std::int64_t in, out;
};
RINGLET_HOST_DEVICE TurnedTile turned_tile(const TurnedTiles& plan, std::int64_t unit) {
  const Division b = divide(unit, plan.b_tiles);
  const Division a = divide(b.quotient, plan.a_tiles);
  std::int64_t offset[2];
  plan.places.offsets(a.quotient, offset);
  const std::int64_t first_a = a.remainder * kPermuteTile, first_b = b.remainder * kPermuteTile;
  return {first_a, first_b, offset[0] + first_b * plan.b_in_stride + first_a,
          offset[1] + first_a * plan.a_out_stride + first_b};
}

/// The last dimension is not contiguous in the input.
inline TurnedTiles plan_turned_tiles(const PermuteArgs& args) {
  const int b = args.dim - 1;
  int a = 0;
  while (a < b && args.in_strides[a] != 1) ++a;
  std::int64_t out_strides[Shape::kMaxDim];
  for (std::int64_t i = b, stride = 1; i >= 0; stride *= args.sizes[i--]) out_strides[i] = stride;

  TurnedTiles plan{args.sizes[a], args.sizes[b], out_strides[a], args.in_strides[b], 1, {}, {}, {}};
  plan.a_tiles = Divider((plan.a_size + kPermuteTile - 1) / kPermuteTile);
  plan.b_tiles = Divider((plan.b_size + kPermuteTile - 1) / kPermuteTile);
  for (int i = 0; i < b; ++i) {
    if (i == a) continue;
    plan.places.add(args.sizes[i], {args.in_strides[i], out_strides[i]});
    plan.others *= args.sizes[i];
  }
  return plan;
}

/// Whether whole rows can be copied: the last dimension is contiguous on both sides.
inline bool moves_rows(const PermuteArgs& args) {
  return args.dim == 0 || args.in_strides[args.dim - 1] == 1;
}

/// The widest word for copies of whole rows.
inline std::size_t row_word(const PermuteArgs& args) {
  const std::int64_t row = args.dim > 0 ? args.sizes[args.dim - 1] : 1;
  WidestWord word;
  word.fits(args.out).fits(args.in).fits(row * args.itemsize);
  for (int i = 0; i < args.dim - 1; ++i) word.fits(args.in_strides[i] * args.itemsize);
  return word.nbytes();
}

/// The positions of the rows' words in the input and the output.
inline Strided<2> plan_rows(const PermuteArgs& args, std::size_t word) {
  const auto nbytes = static_cast<std::int64_t>(word);
  const std::int64_t row = args.itemsize * (args.dim > 0 ? args.sizes[args.dim - 1] : 1);
  std::int64_t out_strides[Shape::kMaxDim];  // bytes
  for (std::int64_t i = args.dim - 2, stride = row; i >= 0; stride *= args.sizes[i--])
    out_strides[i] = stride;
  Strided<2> places;
  for (int i = 0; i < args.dim - 1; ++i)
    places.add(args.sizes[i],
               {args.in_strides[i] * args.itemsize / nbytes, out_strides[i] / nbytes});
  places.add(row / nbytes, {1, 1});
  return places;
}

namespace {

// ---- copies -------------------------------------------------------------------------------

// `places`: positions in the input and the output, in words.
template <class W>
__global__ void copy_words(W* out, const W* in, Strided<2> places) {
  grid_stride(places.numel, [&](std::int64_t i) {
    std::int64_t at[2];
    places.offsets(i, at);
    out[at[1]] = in[at[0]];
  });
}

void run_copy(const char* name, void* out, const void* in, const Strided<2>& places,
              std::size_t word, Device device) {
  dispatch_word(word, [&]<class W>() {
    launch(name, device, copy_words<W>, grid_for(places.numel), kThreads, 0, static_cast<W*>(out),
           static_cast<const W*>(in), places);
  });
}

void copy_blocks(const CopyBlocksArgs& args, Device device) {
  if (args.count == 1) {
    const DeviceGuard guard(device);
    RINGLET_CUDA(cudaMemcpyAsync(args.out, args.in, static_cast<std::size_t>(args.nbytes),
                                 cudaMemcpyDeviceToDevice, current_stream(device)));
    return;
  }
  WidestWord widest;
  widest.fits(args.out).fits(args.in).fits(args.nbytes);
  widest.fits(args.out_stride).fits(args.in_stride);
  const auto word = static_cast<std::int64_t>(widest.nbytes());
  Strided<2> places;
  places.add(args.count, {args.in_stride / word, args.out_stride / word});
  places.add(args.nbytes / word, {1, 1});
  run_copy("copy_blocks", args.out, args.in, places, widest.nbytes(), device);
}

// ---- permute ------------------------------------------------------------------------------

// Tile by tile through shared memory, so that reads and writes are contiguous.
template <class T>
__global__ void turn_tiles(T* out, const T* in, TurnedTiles plan) {
  __shared__ T tile[kPermuteTile][kPermuteTile + 1];  // (b, a)
  const int x = static_cast<int>(threadIdx.x);
  for (std::int64_t unit = blockIdx.x; unit < plan.units(); unit += gridDim.x) {
    const TurnedTile at = turned_tile(plan, unit);
    for (int y = static_cast<int>(threadIdx.y); y < kPermuteTile; y += static_cast<int>(blockDim.y))
      if (at.a + x < plan.a_size && at.b + y < plan.b_size)
        tile[y][x] = in[at.in + y * plan.b_in_stride + x];
    __syncthreads();
    for (int y = static_cast<int>(threadIdx.y); y < kPermuteTile; y += static_cast<int>(blockDim.y))
      if (at.a + y < plan.a_size && at.b + x < plan.b_size)
        out[at.out + y * plan.a_out_stride + x] = tile[x][y];
    __syncthreads();
  }
}

void permute(const PermuteArgs& args, Device device) {
  if (moves_rows(args)) {
    const std::size_t word = row_word(args);
    return run_copy("permute", args.out, args.in, plan_rows(args, word), word, device);
  }
  const TurnedTiles plan = plan_turned_tiles(args);
  dispatch_word(static_cast<std::size_t>(args.itemsize), [&]<class T>() {
    launch("permute", device, turn_tiles<T>, grid_for(plan.units(), 1), dim3(kPermuteTile, 8), 0,
           static_cast<T*>(args.out), static_cast<const T*>(args.in), plan);
  });
}

// ---- gather -------------------------------------------------------------------------------

// Rows selected by an index (n), `words` words each. Rows out of range are zeros.
template <class W>
__global__ void gather_words(W* out, const W* in, IndexView index, std::int64_t rows,
                             std::int64_t in_n, Divider n, Divider words) {
  grid_stride(rows * words.divisor(), [&](std::int64_t i) {
    const Division word = divide(i, words);
    const Division row = divide(word.quotient, n);
    const std::int64_t from = index[row.remainder];
    out[i] = 0 <= from && from < in_n
                 ? in[(row.quotient * in_n + from) * words.divisor() + word.remainder]
                 : W{};
  });
}

// Elements selected by an index (outer, n, inner).
template <class T>
__global__ void gather_elements(T* out, const T* in, IndexView index, std::int64_t size,
                                std::int64_t in_n, Divider block, Divider inner) {
  grid_stride(size, [&](std::int64_t i) {
    const std::int64_t o = block.quotient(i), column = divide(i, inner).remainder;
    const std::int64_t from = index[i];
    out[i] = 0 <= from && from < in_n ? in[(o * in_n + from) * inner.divisor() + column] : T{};
  });
}

void gather(const GatherArgs& args, Device device) {
  const IndexView index(args.index, args.index_dtype);
  if (!args.whole_rows)
    return dispatch_word(static_cast<std::size_t>(args.itemsize), [&]<class T>() {
      const std::int64_t size = args.outer * args.n * args.inner;
      launch("gather", device, gather_elements<T>, grid_for(size), kThreads, 0,
             static_cast<T*>(args.out), static_cast<const T*>(args.in), index, size, args.in_n,
             Divider(args.n * args.inner), Divider(args.inner));
    });
  const std::int64_t row = args.inner * args.itemsize, rows = args.outer * args.n;
  WidestWord widest;
  widest.fits(args.out).fits(args.in).fits(row);
  dispatch_word(widest.nbytes(), [&]<class W>() {
    const std::int64_t words = row / static_cast<std::int64_t>(sizeof(W));
    launch("index_select", device, gather_words<W>, grid_for(rows * words), kThreads, 0,
           static_cast<W*>(args.out), static_cast<const W*>(args.in), index, rows, args.in_n,
           Divider(args.n), Divider(words));
  });
}

}  // namespace

void register_index() {
  copy_blocks_kernel.set(DeviceType::cuda, copy_blocks);
  permute_kernel.set(DeviceType::cuda, permute);
  gather_kernel.set(DeviceType::cuda, gather);
  scatter_add_kernel.set(DeviceType::cuda, scatter_add);
}

}  // namespace ringlet::cuda
