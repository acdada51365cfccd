#include "ringlet/core/ops/index.h"

#include "ringlet/core/cpu/dispatch.h"
#include "ringlet/core/cpu/simd.h"
#include "ringlet/core/parallel.h"
#include "ringlet/core/permutation.h"

namespace ringlet::cpu::RINGLET_ISA {
namespace {

constexpr std::int64_t kGrainBytes = 1 << 16;

template <class Body>
void dispatch_index(DType dtype, Body&& body) {
  if (dtype == DType::i32) return body.template operator()<std::int32_t>();
  body.template operator()<std::int64_t>();
}

// Elements move as unsigned words of their size.
template <class Body>
void dispatch_itemsize(std::int64_t itemsize, Body&& body) {
  switch (itemsize) {
    case 1:
      return body.template operator()<std::uint8_t>();
    case 2:
      return body.template operator()<std::uint16_t>();
    case 4:
      return body.template operator()<std::uint32_t>();
    default:
      return body.template operator()<std::uint64_t>();
  }
}

RINGLET_INLINE void copy(void* to, const void* from, std::int64_t nbytes) {
  memcpy(to, from, static_cast<size_t>(nbytes));
}

void copy_blocks(const CopyBlocksArgs& args, Device device) {
  auto* out = static_cast<char*>(args.out);
  const auto* in = static_cast<const char*>(args.in);
  if (args.count == 1) {
    return parallel_for(
        device, args.nbytes, kGrainBytes,
        [&](std::int64_t begin, std::int64_t end) { copy(out + begin, in + begin, end - begin); });
  }
  parallel_for(device, args.count, kGrainBytes / args.nbytes + 1,
               [&](std::int64_t begin, std::int64_t end) {
                 for (std::int64_t i = begin; i < end; ++i)
                   copy(out + i * args.out_stride, in + i * args.in_stride, args.nbytes);
               });
}

// ---- permute ------------------------------------------------------------------------------

// The input offset of position `index` among the first `dim` dimensions.
std::int64_t input_offset(const PermuteArgs& args, int dim, std::int64_t index) {
  std::int64_t offset = 0;
  for (int i = dim - 1; i >= 0; --i) {
    offset += index % args.sizes[i] * args.in_strides[i];
    index /= args.sizes[i];
  }
  return offset;
}

// The last dimension is contiguous on both sides.
template <class T>
void permute_rows(const PermuteArgs& args, Device device) {
  const int outer_dim = args.dim > 0 ? args.dim - 1 : 0;
  const std::int64_t row = args.dim > 0 ? args.sizes[outer_dim] : 1;
  std::int64_t rows = 1;
  for (int i = 0; i < outer_dim; ++i) rows *= args.sizes[i];
  parallel_for(device, rows, kGrainBytes / (row * args.itemsize) + 1,
               [&](std::int64_t begin, std::int64_t end) {
                 for (std::int64_t r = begin; r < end; ++r)
                   copy(static_cast<T*>(args.out) + r * row,
                        static_cast<const T*>(args.in) + input_offset(args, outer_dim, r),
                        row * args.itemsize);
               });
}

constexpr std::int64_t kTile = 32;
constexpr std::int64_t kBlock = 8;

// An 8 x 8 block in vectors: each round zips row i with row i + 4, which moves one bit of the row
// number to the column number; after three rounds they have changed places.
template <class T>
RINGLET_INLINE void transpose_block(T* out, std::int64_t out_stride, const T* in,
                                    std::int64_t in_stride) {
  typedef T Row __attribute__((vector_size(kBlock * sizeof(T))));
  Row a[kBlock], b[kBlock];
  for (int i = 0; i < kBlock; ++i) memcpy(&a[i], in + i * in_stride, sizeof(Row));
  for (int round = 0; round < 3; ++round) {
    for (int i = 0; i < kBlock / 2; ++i) {
      b[2 * i] = __builtin_shufflevector(a[i], a[i + 4], 0, 8, 1, 9, 2, 10, 3, 11);
      b[2 * i + 1] = __builtin_shufflevector(a[i], a[i + 4], 4, 12, 5, 13, 6, 14, 7, 15);
    }
    for (int i = 0; i < kBlock; ++i) a[i] = b[i];
  }
  for (int i = 0; i < kBlock; ++i) memcpy(out + i * out_stride, &a[i], sizeof(Row));
}

// out[a, b] = in[b, a] for one tile; the input is contiguous in a, the output in b.
template <class T>
RINGLET_INLINE void transpose_tile(T* out, std::int64_t out_stride, const T* in,
                                   std::int64_t in_stride, std::int64_t a_size,
                                   std::int64_t b_size) {
  const std::int64_t a_whole = a_size - a_size % kBlock, b_whole = b_size - b_size % kBlock;
  for (std::int64_t a = 0; a < a_whole; a += kBlock)
    for (std::int64_t b = 0; b < b_whole; b += kBlock)
      transpose_block(out + a * out_stride + b, out_stride, in + b * in_stride + a, in_stride);
  for (std::int64_t a = 0; a < a_size; ++a)
    for (std::int64_t b = a < a_whole ? b_whole : 0; b < b_size; ++b)
      out[a * out_stride + b] = in[b * in_stride + a];
}

// The output's last dimension (b) is strided in the input, whose own last dimension is `a` here:
// all other dimensions are walked, (a, b) goes tile by tile.
template <class T>
void permute_tiles(const PermuteArgs& args, Device device) {
  const int b = args.dim - 1;
  int a = 0;
  while (a < b && args.in_strides[a] != 1) ++a;
  const std::int64_t a_size = args.sizes[a], b_size = args.sizes[b], b_stride = args.in_strides[b];
  std::int64_t a_out_stride = b_size, before = 1, between = 1;
  for (int i = a + 1; i < b; ++i) between *= args.sizes[i];
  for (int i = 0; i < a; ++i) before *= args.sizes[i];
  a_out_stride *= between;
  PermuteArgs middle = args;  // dimensions between a and b, moved to the front
  for (int i = a + 1; i < b; ++i) {
    middle.sizes[i - a - 1] = args.sizes[i];
    middle.in_strides[i - a - 1] = args.in_strides[i];
  }
  const std::int64_t a_tiles = (a_size + kTile - 1) / kTile;
  parallel_for(
      device, before * between * a_tiles, kGrainBytes / (kTile * b_size * args.itemsize) + 1,
      [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t unit = begin; unit < end; ++unit) {
          const std::int64_t i = unit % a_tiles * kTile;
          const std::int64_t m = unit / a_tiles % between, o = unit / a_tiles / between;
          const T* in = static_cast<const T*>(args.in) + input_offset(args, a, o) +
                        input_offset(middle, b - a - 1, m) + i;
          T* out = static_cast<T*>(args.out) + (o * a_size + i) * a_out_stride + m * b_size;
          const std::int64_t height = a_size - i < kTile ? a_size - i : kTile;
          for (std::int64_t j = 0; j < b_size; j += kTile)
            transpose_tile(out + j, a_out_stride, in + j * b_stride, b_stride, height,
                           b_size - j < kTile ? b_size - j : kTile);
        }
      });
}

void permute(const PermuteArgs& unmerged, Device device) {
  const PermuteArgs args = merged(unmerged);
  dispatch_itemsize(args.itemsize, [&]<class T>() {
    if (args.dim == 0 || args.in_strides[args.dim - 1] == 1) return permute_rows<T>(args, device);
    permute_tiles<T>(args, device);
  });
}

// ---- by index -----------------------------------------------------------------------------

template <class Index>
RINGLET_INLINE std::int64_t checked(const char* op, Index index, std::int64_t size) {
  const std::int64_t wide = static_cast<std::int64_t>(index);
  if (wide < 0 || wide >= size) [[unlikely]]
    index_out_of_range(op, wide, size);
  return wide;
}

template <class Index>
void gather_rows(const GatherArgs& args, Device device) {
  const auto* index = static_cast<const Index*>(args.index);
  const std::int64_t row = args.inner * args.itemsize;
  parallel_for(device, args.outer * args.n, kGrainBytes / row + 1,
               [&](std::int64_t begin, std::int64_t end) {
                 for (std::int64_t r = begin; r < end; ++r) {
                   const std::int64_t from = checked("index_select", index[r % args.n], args.in_n);
                   copy(static_cast<char*>(args.out) + r * row,
                        static_cast<const char*>(args.in) + (r / args.n * args.in_n + from) * row,
                        row);
                 }
               });
}

template <class T, class Index>
void gather_elements(const GatherArgs& args, Device device) {
  const auto* index = static_cast<const Index*>(args.index);
  const auto* in = static_cast<const T*>(args.in);
  auto* out = static_cast<T*>(args.out);
  parallel_for(device, args.outer * args.n, kGrainBytes / (args.inner * args.itemsize) + 1,
               [&](std::int64_t begin, std::int64_t end) {
                 for (std::int64_t r = begin; r < end; ++r) {
                   const T* from = in + r / args.n * args.in_n * args.inner;
                   for (std::int64_t i = 0; i < args.inner; ++i) {
                     const std::int64_t at = r * args.inner + i;
                     out[at] = from[checked("gather", index[at], args.in_n) * args.inner + i];
                   }
                 }
               });
}

void gather(const GatherArgs& args, Device device) {
  dispatch_index(args.index_dtype, [&]<class Index>() {
    if (args.whole_rows) return gather_rows<Index>(args, device);
    dispatch_itemsize(args.itemsize, [&]<class T>() { gather_elements<T, Index>(args, device); });
  });
}

// Calls body(o, begin, end) for ranges of columns of the outer blocks, on the device's threads.
// Columns never meet, so every element sees its rows in order.
template <class Args, class Body>
void for_columns(const Args& args, std::int64_t itemsize, Device device, Body&& body) {
  parallel_for(device, args.outer * args.inner, kGrainBytes / (args.n * itemsize) + 1,
               [&](std::int64_t begin, std::int64_t end) {
                 while (begin < end) {
                   const std::int64_t o = begin / args.inner;
                   const std::int64_t stop =
                       end < (o + 1) * args.inner ? end : (o + 1) * args.inner;
                   body(o, begin - o * args.inner, stop - o * args.inner);
                   begin = stop;
                 }
               });
}

// Columns [begin, end) of one outer block, rows in order.
template <class T, class Index>
void add_rows(const ScatterAddArgs& args, T* out, const T* source, const Index* index,
              std::int64_t begin, std::int64_t end) {
  for (std::int64_t j = 0; j < args.n; ++j) {
    T* to = out + static_cast<std::int64_t>(index[j]) * args.inner;
    const T* from = source + j * args.inner;
    for_vectors<T>(end - begin, [&](std::int64_t i, std::int64_t count) {
      const std::int64_t at = begin + i;
      store_at(to, at, count, load_at(to, at, count) + load_at(from, at, count));
    });
  }
}

template <class T, class Index>
void add_elements(const ScatterAddArgs& args, T* out, const T* source, const Index* index,
                  std::int64_t begin, std::int64_t end) {
  for (std::int64_t j = 0; j < args.n; ++j)
    for (std::int64_t i = begin; i < end; ++i) {
      T& to = out[static_cast<std::int64_t>(index[j * args.inner + i]) * args.inner + i];
      to = T(static_cast<scalar_t<T>>(to) + static_cast<scalar_t<T>>(source[j * args.inner + i]));
    }
}

template <class T, class Index>
void scatter_add_as(const ScatterAddArgs& args, Device device) {
  const auto* index = static_cast<const Index*>(args.index);
  const auto* source = static_cast<const T*>(args.source);
  auto* out = static_cast<T*>(args.out);
  // All are checked before the first sum, so that a bad index leaves `out` as it was.
  const std::int64_t indices = args.whole_rows ? args.n : args.outer * args.n * args.inner;
  for (std::int64_t i = 0; i < indices; ++i)
    checked(args.whole_rows ? "index_add_" : "scatter_add_", index[i], args.out_n);
  for_columns(args, static_cast<std::int64_t>(sizeof(T)), device,
              [&](std::int64_t o, std::int64_t begin, std::int64_t end) {
                T* block = out + o * args.out_n * args.inner;
                const T* rows = source + o * args.n * args.inner;
                if (args.whole_rows) {
                  add_rows(args, block, rows, index, begin, end);
                } else {
                  add_elements(args, block, rows, index + o * args.n * args.inner, begin, end);
                }
              });
}

void scatter_add(const ScatterAddArgs& args, Device device) {
  dispatch_floating("scatter_add", args.dtype, [&]<class T>() {
    dispatch_index(args.index_dtype,
                   [&]<class Index>() { scatter_add_as<T, Index>(args, device); });
  });
}

template <class T, class Index>
void scatter_as(const ScatterArgs& args, Device device) {
  const auto* index = static_cast<const Index*>(args.index);
  const auto* source = static_cast<const T*>(args.source);
  auto* out = static_cast<T*>(args.out);
  // As in scatter_add: a bad index leaves `out` as it was.
  const std::int64_t rows = args.n * args.inner;
  for (std::int64_t i = 0; i < args.outer * rows; ++i) checked("scatter_", index[i], args.out_n);
  for_columns(args, static_cast<std::int64_t>(sizeof(T)), device,
              [&](std::int64_t o, std::int64_t begin, std::int64_t end) {
                T* block = out + o * args.out_n * args.inner;
                for (std::int64_t j = 0; j < args.n; ++j)
                  for (std::int64_t i = begin; i < end; ++i) {
                    const std::int64_t at = o * rows + j * args.inner + i;
                    block[static_cast<std::int64_t>(index[at]) * args.inner + i] = source[at];
                  }
              });
}

void scatter(const ScatterArgs& args, Device device) {
  dispatch_itemsize(args.itemsize, [&]<class T>() {
    dispatch_index(args.index_dtype, [&]<class Index>() { scatter_as<T, Index>(args, device); });
  });
}

}  // namespace

void register_index() {
  copy_blocks_kernel.set(DeviceType::cpu, copy_blocks);
  permute_kernel.set(DeviceType::cpu, permute);
  gather_kernel.set(DeviceType::cpu, gather);
  scatter_add_kernel.set(DeviceType::cpu, scatter_add);
  scatter_kernel.set(DeviceType::cpu, scatter);
}

}  // namespace ringlet::cpu::RINGLET_ISA
