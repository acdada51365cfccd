// The unit of work of attention: one head of one sentence, copied or read in place.
#pragma once

#include <type_traits>

#include "ringlet/core/cpu/simd.h"
#include "ringlet/core/ops/attention.h"

namespace ringlet::cpu::RINGLET_ISA {

// Queries are processed in blocks: the scores of a long sentence then fit the level-2 cache.
inline constexpr std::int64_t kQueryBlock = 64;

/// n rounded up to whole vectors.
template <class S>
RINGLET_INLINE std::int64_t padded(std::int64_t n) {
  return (n + Compute<S>::kLanes - 1) / Compute<S>::kLanes * Compute<S>::kLanes;
}

/// One head of one sentence: L tokens from `first` on.
template <class T>
struct Item {
  using S = scalar_t<T>;

  Item(const AttentionShape& shape, std::int64_t index)
      : all(shape), sentence(index / shape.heads), head(index % shape.heads) {
    first = shape.cu_seqlens[sentence];
    length = shape.cu_seqlens[sentence + 1] - first;
    attended = shape.lengths ? shape.lengths[sentence] : length;
    width = shape.head_size;
    stride = 3 * shape.heads * width;
    columns = padded<S>(width);
    ld = padded<S>(queries(0));
    id = static_cast<std::uint32_t>(shape.sentence_ids ? shape.sentence_ids[sentence] : sentence);
  }

  // Part 0, 1, 2 of a (T, 3 heads d) tensor: q, k, v of this head from token `token` on.
  std::int64_t offset(int part, std::int64_t token) const {
    return (first + token) * stride + (part * all.heads + head) * width;
  }
  const T* in(int part, std::int64_t token = 0) const {
    return static_cast<const T*>(all.qkv) + offset(part, token);
  }
  // This head's offset in a (T, heads d) tensor.
  std::int64_t out_offset(std::int64_t token) const {
    return ((first + token) * all.heads + head) * width;
  }
  // This head's offset in the (heads, T) log-sum-exp.
  std::int64_t lse_offset(std::int64_t token) const { return head * all.tokens + first + token; }
  std::int64_t queries(std::int64_t begin) const {
    return length - begin < kQueryBlock ? length - begin : kQueryBlock;
  }

  const AttentionShape& all;
  std::int64_t sentence, head, first, length;
  std::int64_t attended;       // keys that are not padding
  std::int64_t width, stride;  // d; elements between tokens in qkv
  std::int64_t columns;        // width in whole vectors
  std::int64_t ld;             // the queries of a block in whole vectors
  std::uint32_t id;            // the sentence's
};

/// Allocates working memory of an item piece by piece; every piece starts on a cache line.
template <class S>
class Pieces {
 public:
  explicit Pieces(S* memory) : next_(memory) {}
  S* take(std::int64_t count) {
    S* piece = next_;
    next_ += padded<S>(count);
    return piece;
  }

 private:
  S* next_;
};

/// Prefetches a head's rows of a block, to be read or written soon. They are a token apart, a
/// stride that the hardware prefetcher does not follow.
template <int kWrites, class T>
RINGLET_INLINE void fetch_rows(const T* from, std::int64_t stride, const Item<T>& item,
                               std::int64_t rows) {
  for (std::int64_t r = 0; r < rows; ++r)
    for (std::int64_t i = 0; i < item.width; i += std::int64_t{64 / sizeof(T)})
      __builtin_prefetch(from + r * stride + i, kWrites, 3);
}

/// Rows of a head's d columns, in whole vectors.
template <class S>
struct HeadRows {
  const S* data;
  std::int64_t stride;
};

/// The rows in place if they can be read there, else copied to `space`.
template <class T, class S = scalar_t<T>>
HeadRows<S> head_rows(const T* from, std::int64_t stride, std::int64_t rows, const Item<T>& item,
                      S* space) {
  if constexpr (std::is_same_v<T, S>)
    if (item.columns == item.width) return {from, stride};
  for (std::int64_t r = 0; r < rows; ++r)
    for_vectors<T>(item.width, [&](std::int64_t i, std::int64_t lanes) {
      store(space + r * item.columns + i, load_at(from + r * stride, i, lanes));
    });
  return {space, item.columns};
}

/// to = factor(row) times the rows of `from`.
template <class T, class S = scalar_t<T>, class Factor>
RINGLET_INLINE void scatter_rows(T* to, std::int64_t stride, const S* from, std::int64_t rows,
                                 const Item<T>& item, Factor factor) {
  for (std::int64_t r = 0; r < rows; ++r) {
    const vector_t<T> by = splat(factor(r));
    for_vectors<T>(item.width, [&](std::int64_t i, std::int64_t lanes) {
      store_at(to + r * stride, i, lanes, load(from + r * item.columns + i) * by);
    });
  }
}

}  // namespace ringlet::cpu::RINGLET_ISA
