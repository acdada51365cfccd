// Eigen's packing and block-panel kernel under loops of our own: both operands are packed once per
// product, by all threads, and a block of C stays in the second-level cache until it is finished.
#define EIGEN_DONT_PARALLELIZE
#define EIGEN_NO_DEBUG
#if defined(__GNUC__) && !defined(__clang__)
// The compiler's own headers of wide registers warn about a value they leave open on purpose.
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC diagnostic ignored "-Wuninitialized"
#endif
#include "ringlet/core/cpu/gemm.h"

#include <Eigen/Core>

#include "ringlet/core/cpu/scratch.h"
#include "ringlet/core/cpu/simd.h"
#include "ringlet/core/error.h"
#include "ringlet/core/parallel.h"

namespace ringlet::cpu::RINGLET_ISA {
namespace {

using Index = std::int64_t;

// Eigen's matrices are column-major, so it computes C^T = op(B)^T op(A)^T: its left operand is B,
// its right one A. A block of C takes 128 x 384 floats = 192 KiB, a strip of packed B that the
// innermost kernel (48 x 4 with 16 lanes) runs along 48 x 192 floats = 36 KiB.
constexpr Index kRows = 128;
constexpr Index kColumns = 384;
constexpr Index kDepth = 192;
constexpr Index kInLine = 1 << 18;  // multiply-adds below which threads cost more than they bring

constexpr Index min_of(Index a, Index b) { return a < b ? a : b; }
constexpr Index blocks_of(Index n, Index block) { return (n + block - 1) / block; }
constexpr Index padded(Index rows) { return (rows + 3) & ~Index{3}; }

template <class T>
using Traits = Eigen::internal::gebp_traits<T, T>;

// A corner of an operand as T, in memory order: `outer` runs of `inner` neighbours.
template <class T>
struct Corner {
  const T* data;
  Index ld;
};

template <class T>
Corner<T> corner(const GemmOperand& x, Index outer, Index inner, Index outers, Index inners,
                 T* converted) {
  const Index at = outer * x.ld + inner;
  if constexpr (sizeof(T) == sizeof(float)) {
    if (x.dtype == DType::bf16) {
      const bfloat16* from = static_cast<const bfloat16*>(x.data) + at;
      for (Index i = 0; i < outers; ++i)
        for_vectors<bfloat16>(inners, [&](Index j, Index count) {
          store_at(converted + i * inners, j, count, load_at(from + i * x.ld, j, count));
        });
      return {converted, inners};
    }
  }
  return {static_cast<const T*>(x.data) + at, x.ld};
}

// Columns [column, column + columns) of op(B) over depth [depth, depth + depths).
template <class T>
void pack_b(const GemmOperand& b, Index column, Index columns, Index depth, Index depths, T* to) {
  using namespace Eigen::internal;
  const Scratch scratch(static_cast<std::size_t>(columns * depths) * sizeof(T));
  T* converted = scratch.as<T>();
  constexpr int kMr = Traits<T>::mr, kProgress = Traits<T>::LhsProgress;
  using Packet = typename Traits<T>::LhsPacket4Packing;
  if (b.trans) {
    using Mapper = const_blas_data_mapper<T, Index, Eigen::RowMajor>;
    const Corner<T> from = corner(b, column, depth, columns, depths, converted);
    gemm_pack_lhs<T, Index, Mapper, kMr, kProgress, Packet, Eigen::RowMajor> pack;
    pack(to, Mapper(from.data, from.ld), depths, columns);
  } else {
    using Mapper = const_blas_data_mapper<T, Index, Eigen::ColMajor>;
    const Corner<T> from = corner(b, depth, column, depths, columns, converted);
    gemm_pack_lhs<T, Index, Mapper, kMr, kProgress, Packet, Eigen::ColMajor> pack;
    pack(to, Mapper(from.data, from.ld), depths, columns);
  }
}

// Rows [row, row + rows) of op(A) over depth [depth, depth + depths), zero rows up to a multiple of
// four, so that every row runs through the same kernel.
template <class T>
void pack_a(const GemmOperand& a, Index row, Index rows, Index depth, Index depths, T* to) {
  using namespace Eigen::internal;
  using ColumnMapper = const_blas_data_mapper<T, Index, Eigen::ColMajor>;
  using RowMapper = const_blas_data_mapper<T, Index, Eigen::RowMajor>;
  gemm_pack_rhs<T, Index, ColumnMapper, Traits<T>::nr, Eigen::ColMajor> pack_columns;
  gemm_pack_rhs<T, Index, RowMapper, Traits<T>::nr, Eigen::RowMajor> pack_rows;

  const Scratch scratch(static_cast<std::size_t>((rows + 4) * depths) * sizeof(T));
  T* rest = scratch.as<T>();  // (4, depths)
  const Corner<T> from = a.trans ? corner(a, depth, row, depths, rows, rest + 4 * depths)
                                 : corner(a, row, depth, rows, depths, rest + 4 * depths);
  const Index whole = rows & ~Index{3};
  if (a.trans) {
    pack_rows(to, RowMapper(from.data, from.ld), depths, whole);
  } else {
    pack_columns(to, ColumnMapper(from.data, from.ld), depths, whole);
  }
  if (whole == rows) return;
  for (Index i = 0; i < 4; ++i)
    for (Index d = 0; d < depths; ++d) {
      const Index at = whole + i;
      rest[i * depths + d] = at >= rows ? T(0)
                             : a.trans  ? from.data[d * from.ld + at]
                                        : from.data[at * from.ld + d];
    }
  pack_columns(to + whole * depths, ColumnMapper(rest, depths), depths, 4);
}

// Packed operands lie block after block, and within a block depth after depth.
template <class T>
struct Product {
  Index m, n, k;
  T alpha;
  const GemmOperand& a;
  const GemmOperand& b;
  const GemmEpilogue<T>& epilogue;
  T* packed_a;  // (padded(m), k)
  T* packed_b;  // (n, k)

  Index row_blocks() const { return blocks_of(m, kRows); }
  Index column_blocks() const { return blocks_of(n, kColumns); }
  Index depth_blocks() const { return blocks_of(k, kDepth); }

  void pack(Index piece) const {
    const Index depth = piece % depth_blocks() * kDepth, depths = min_of(kDepth, k - depth);
    const Index block = piece / depth_blocks();
    if (block < column_blocks()) {
      const Index column = block * kColumns, columns = min_of(kColumns, n - column);
      pack_b(b, column, columns, depth, depths, packed_b + column * k + depth * columns);
    } else {
      const Index row = (block - column_blocks()) * kRows, rows = min_of(kRows, m - row);
      pack_a(a, row, rows, depth, depths, packed_a + row * k + depth * padded(rows));
    }
  }

  void multiply(Index piece) const {
    using Mapper =
        Eigen::internal::blas_data_mapper<T, Index, Eigen::ColMajor, Eigen::Unaligned, 1>;
    Eigen::internal::gebp_kernel<T, T, Index, Mapper, Traits<T>::mr, Traits<T>::nr, false, false>
        kernel;
    const Index row = piece / column_blocks() * kRows, rows = min_of(kRows, m - row);
    const Index column = piece % column_blocks() * kColumns;
    const Index columns = min_of(kColumns, n - column);
    const std::size_t nbytes = static_cast<std::size_t>(padded(rows) * columns) * sizeof(T);
    const Scratch block(nbytes);  // (padded(rows), columns)
    memset(block.as<void>(), 0, nbytes);
    for (Index depth = 0; depth < k; depth += kDepth) {
      const Index depths = min_of(kDepth, k - depth);
      kernel(Mapper(block.as<T>(), columns), packed_b + column * k + depth * columns,
             packed_a + row * k + depth * padded(rows), columns, depths, padded(rows), alpha);
    }
    epilogue.run(epilogue.context, {block.as<T>(), columns, row, column, rows, columns});
  }
};

template <class T>
void run(Device device, Index m, Index n, Index k, T alpha, const GemmOperand& a,
         const GemmOperand& b, const GemmEpilogue<T>& epilogue) {
  if (m == 0 || n == 0) return;
  const Index b_size = (n * k + 15) & ~Index{15};  // keeps A aligned
  const Scratch scratch(static_cast<std::size_t>(b_size + padded(m) * k) * sizeof(T));
  const Product<T> product{
      m, n, k, alpha, a, b, epilogue, scratch.as<T>() + b_size, scratch.as<T>()};
  const Index packs = (product.row_blocks() + product.column_blocks()) * product.depth_blocks();
  const Index blocks = product.row_blocks() * product.column_blocks();
  const bool in_line = m * n * k <= kInLine;
  parallel_for(device, packs, in_line ? packs : 1, [&](Index begin, Index end) {
    for (Index i = begin; i < end; ++i) product.pack(i);
  });
  parallel_for(device, blocks, in_line ? blocks : 1, [&](Index begin, Index end) {
    for (Index i = begin; i < end; ++i) product.multiply(i);
  });
}

// ---- plain results ------------------------------------------------------------------------

struct Output {
  void* c;
  Index ldc;
  double beta;
};

template <class T, class Out>
void write_block(const void* context, const GemmBlock<T>& block) {
  const Output& out = *static_cast<const Output*>(context);
  const auto beta = splat(static_cast<T>(out.beta));
  for (Index i = 0; i < block.rows; ++i) {
    const T* from = block.data + i * block.ld;
    Out* to = static_cast<Out*>(out.c) + (block.row + i) * out.ldc + block.column;
    for_vectors<Out>(block.columns, [&](Index j, Index count) {
      const auto value = load_at(from, j, count);
      store_at(to, j, count, out.beta == 0 ? value : fma(beta, load_at(to, j, count), value));
    });
  }
}

}  // namespace

void gemm(Device device, Index m, Index n, Index k, float alpha, const GemmOperand& a,
          const GemmOperand& b, const GemmEpilogue<float>& epilogue) {
  run(device, m, n, k, alpha, a, b, epilogue);
}

void gemm(Device device, Index m, Index n, Index k, double alpha, const GemmOperand& a,
          const GemmOperand& b, const GemmEpilogue<double>& epilogue) {
  run(device, m, n, k, alpha, a, b, epilogue);
}

void gemm(Device device, Index m, Index n, Index k, double alpha, const GemmOperand& a,
          const GemmOperand& b, double beta, void* c, DType c_dtype, Index ldc) {
  const Output out{c, ldc, beta};
  if (c_dtype == DType::f64) {
    gemm(device, m, n, k, alpha, a, b, GemmEpilogue<double>{write_block<double, double>, &out});
  } else {
    gemm(device, m, n, k, static_cast<float>(alpha), a, b,
         GemmEpilogue<float>{
             c_dtype == DType::bf16 ? write_block<float, bfloat16> : write_block<float, float>,
             &out});
  }
}

}  // namespace ringlet::cpu::RINGLET_ISA
