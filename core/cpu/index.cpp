#include "ringlet/core/ops/index.h"

#include "ringlet/core/cpu/loops.h"
#include "ringlet/core/device/dispatch.h"

namespace ringlet::cpu::RINGLET_ISA {

// The smallest number of bytes of a task.
inline constexpr std::int64_t kGrainBytes = 1 << 16;

RINGLET_INLINE void copy(void* to, const void* from, std::int64_t nbytes) {
  memcpy(to, from, static_cast<size_t>(nbytes));
}

/// Calls body.template operator()<Index>() for the type of an index.
template <class Body>
static inline void dispatch_index(DType dtype, Body&& body) {
  if (dtype == DType::i32) return body.template operator()<std::int32_t>();
  body.template operator()<std::int64_t>();
}

/// The index if it is in [0, size); else throws.
template <class Index>
RINGLET_INLINE std::int64_t checked(const char* op, Index index, std::int64_t size) {
  const std::int64_t wide = static_cast<std::int64_t>(index);
  if (wide < 0 || wide >= size) [[unlikely]]
    index_out_of_range(op, wide, size);
  return wide;
}

namespace {

// ---- sums to the positions that an index gives, in order -----------------------------------

// Adds rows, or elements, to columns [begin, end) of one outer block, in order.
template <class T, class Index>
void add_rows(T* out, const T* source, const Index* index, std::int64_t n, std::int64_t inner,
              std::int64_t begin, std::int64_t end) {
  for (std::int64_t j = 0; j < n; ++j) {
    T* to = out + static_cast<std::int64_t>(index[j]) * inner;
    const T* from = source + j * inner;
    for_vectors<T>(end - begin, [&](std::int64_t i, std::int64_t count) {
      const std::int64_t at = begin + i;
      store_at(to, at, count, load_at(to, at, count) + load_at(from, at, count));
    });
  }
}
template <class T, class Index>
void add_elements(T* out, const T* source, const Index* index, std::int64_t n, std::int64_t inner,
                  std::int64_t begin, std::int64_t end) {
  for (std::int64_t j = 0; j < n; ++j)
    for (std::int64_t i = begin; i < end; ++i) {
      T& to = out[static_cast<std::int64_t>(index[j * inner + i]) * inner + i];
      to = T(static_cast<scalar_t<T>>(to) + static_cast<scalar_t<T>>(source[j * inner + i]));
    }
}

// Calls body for ranges of columns of the outer blocks, on the device's threads. The ranges are
// disjoint, so every element receives its rows in order. All indices are checked before the first
// write: a bad one leaves `out` unchanged.
template <class T, class Index>
void for_blocks(const char* op, const ScatterAddArgs& args, Device device,
                decltype(add_rows<T, Index>)* body) {
  const auto* index = static_cast<const Index*>(args.index);
  const std::int64_t rows = args.n * args.inner;
  const std::int64_t indices = args.whole_rows ? args.n : args.outer * rows;
  for (std::int64_t i = 0; i < indices; ++i) checked(op, index[i], args.out_n);
  const std::int64_t grain = kGrainBytes / (args.n * std::int64_t{sizeof(T)}) + 1;
  for_columns(device, args.outer, args.inner, grain,
              [&](std::int64_t o, std::int64_t begin, std::int64_t end) {
                body(static_cast<T*>(args.out) + o * args.out_n * args.inner,
                     static_cast<const T*>(args.source) + o * rows,
                     args.whole_rows ? index : index + o * rows, args.n, args.inner, begin, end);
              });
}

void scatter_add(const ScatterAddArgs& args, Device device) {
  dispatch_floating("scatter_add", args.dtype, [&]<class T>() {
    dispatch_index(args.index_dtype, [&]<class Index>() {
      if (args.whole_rows)
        return for_blocks<T, Index>("index_add_", args, device, add_rows<T, Index>);
      for_blocks<T, Index>("scatter_add_", args, device, add_elements<T, Index>);
    });
  });
}

}  // namespace

// Permuted dimensions: copies rows that stay contiguous, else transposes tile by tile.

namespace {

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
  for_each(device, rows, kGrainBytes / (row * args.itemsize) + 1, [&](std::int64_t r) {
    copy(static_cast<T*>(args.out) + r * row,
         static_cast<const T*>(args.in) + input_offset(args, outer_dim, r), row * args.itemsize);
  });
}

constexpr std::int64_t kTile = 32;
constexpr std::int64_t kBlock = 8;

// An 8 x 8 block in vectors. Each round zips row i with row i + 4, which moves one bit of the row
// number to the column number; three rounds exchange the two.
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

// The output's last dimension (b) is strided in the input; `a` is the input's contiguous dimension.
// Iterates over the remaining dimensions and transposes (a, b) tile by tile.
template <class T>
void permute_tiles(const PermuteArgs& args, Device device) {
  const int b = args.dim - 1;
  int a = 0;
  while (a < b && args.in_strides[a] != 1) ++a;
  const std::int64_t a_size = args.sizes[a], b_size = args.sizes[b], b_stride = args.in_strides[b];
  std::int64_t before = 1, between = 1;
  for (int i = 0; i < a; ++i) before *= args.sizes[i];
  PermuteArgs middle = args;  // dimensions between a and b, moved to the front
  for (int i = a + 1; i < b; ++i) {
    between *= args.sizes[i];
    middle.sizes[i - a - 1] = args.sizes[i];
    middle.in_strides[i - a - 1] = args.in_strides[i];
  }
  const std::int64_t a_tiles = (a_size + kTile - 1) / kTile, a_out_stride = b_size * between;
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

void permute(const PermuteArgs& args, Device device) {
  dispatch_word(args.itemsize, [&]<class T>() {
    if (args.dim == 0 || args.in_strides[args.dim - 1] == 1) return permute_rows<T>(args, device);
    permute_tiles<T>(args, device);
  });
}

void copy_blocks(const CopyBlocksArgs& args, Device device) {
  auto* out = static_cast<char*>(args.out);
  const auto* in = static_cast<const char*>(args.in);
  if (args.count == 1) {
    return parallel_for(
        device, args.nbytes, kGrainBytes,
        [&](std::int64_t begin, std::int64_t end) { copy(out + begin, in + begin, end - begin); });
  }
  for_each(device, args.count, kGrainBytes / args.nbytes + 1, [&](std::int64_t i) {
    copy(out + i * args.out_stride, in + i * args.in_stride, args.nbytes);
  });
}

template <class Index>
void gather_rows(const GatherArgs& args, Device device) {
  const auto* index = static_cast<const Index*>(args.index);
  const std::int64_t row = args.inner * args.itemsize;
  for_each(device, args.outer * args.n, kGrainBytes / row + 1, [&](std::int64_t r) {
    const std::int64_t from = checked("index_select", index[r % args.n], args.in_n);
    copy(static_cast<char*>(args.out) + r * row,
         static_cast<const char*>(args.in) + (r / args.n * args.in_n + from) * row, row);
  });
}

template <class T, class Index>
void gather_elements(const GatherArgs& args, Device device) {
  const std::int64_t inner = args.inner, in_n = args.in_n;
  for_each(device, args.outer * args.n, kGrainBytes / (inner * args.itemsize) + 1,
           [&](std::int64_t r) {
             const auto* index = static_cast<const Index*>(args.index) + r * inner;
             const T* from = static_cast<const T*>(args.in) + r / args.n * in_n * inner;
             T* out = static_cast<T*>(args.out) + r * inner;
             for (std::int64_t i = 0; i < inner; ++i)
               out[i] = from[checked("gather", index[i], in_n) * inner + i];
           });
}

void gather(const GatherArgs& args, Device device) {
  dispatch_index(args.index_dtype, [&]<class Index>() {
    if (args.whole_rows) return gather_rows<Index>(args, device);
    dispatch_word(args.itemsize, [&]<class T>() { gather_elements<T, Index>(args, device); });
  });
}

}  // namespace

void register_index() {
  copy_blocks_kernel.set(DeviceType::cpu, copy_blocks);
  permute_kernel.set(DeviceType::cpu, permute);
  gather_kernel.set(DeviceType::cpu, gather);
  scatter_add_kernel.set(DeviceType::cpu, scatter_add);
}

}  // namespace ringlet::cpu::RINGLET_ISA
