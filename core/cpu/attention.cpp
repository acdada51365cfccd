#include "ringlet/core/ops/attention.h"

#include "ringlet/core/cpu/dispatch.h"
#include "ringlet/core/cpu/philox.h"
#include "ringlet/core/cpu/scratch.h"
#include "ringlet/core/cpu/simd_math.h"
#include "ringlet/core/cpu/small_matmul.h"
#include "ringlet/core/parallel.h"

namespace ringlet::cpu::RINGLET_ISA {
namespace {

// Queries come in blocks, so that the scores of a long sentence stay in the second cache level.
constexpr std::int64_t kQueryBlock = 64;

template <class S>
std::int64_t padded(std::int64_t n) {
  return (n + Compute<S>::kLanes - 1) / Compute<S>::kLanes * Compute<S>::kLanes;
}

// One head of one sentence: L tokens from `first` on.
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
    keys = padded<S>(length);
    columns = padded<S>(width);
    id = static_cast<std::uint32_t>(shape.sentence_ids ? shape.sentence_ids[sentence] : sentence);
  }

  // Part 0, 1, 2 of a (T, 3 heads d) tensor: q, k, v of this head from token `token` on.
  std::int64_t offset(int part, std::int64_t token) const {
    return (first + token) * stride + (part * all.heads + head) * width;
  }
  const T* in(int part, std::int64_t token = 0) const {
    return static_cast<const T*>(all.qkv) + offset(part, token);
  }
  // This head's place in a (T, heads d) tensor.
  std::int64_t out_offset(std::int64_t token) const {
    return ((first + token) * all.heads + head) * width;
  }
  std::int64_t queries(std::int64_t begin) const {
    return length - begin < kQueryBlock ? length - begin : kQueryBlock;
  }

  const AttentionShape& all;
  std::int64_t sentence, head, first, length;
  std::int64_t attended;       // keys that are not padding
  std::int64_t width, stride;  // d, and from token to token in qkv
  std::int64_t keys, columns;  // length and width in whole vectors
  std::uint32_t id;            // of the sentence
};

// Working memory of an item, handed out piece by piece; every piece starts on a cache line.
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

// to (rows, columns) = factor * from (rows, width), padded with zeros.
template <class T, class S = scalar_t<T>>
void gather_rows(S* to, std::int64_t columns, const T* from, std::int64_t stride, std::int64_t rows,
                 std::int64_t width, S factor) {
  for (std::int64_t r = 0; r < rows; ++r)
    for_vectors<T>(width, [&](std::int64_t i, std::int64_t lanes) {
      store(to + r * columns + i, load_at(from + r * stride, i, lanes) * factor);
    });
}
template <class T, class S = scalar_t<T>>
void scatter_rows(T* to, std::int64_t stride, const S* from, std::int64_t columns,
                  std::int64_t rows, std::int64_t width, S factor) {
  for (std::int64_t r = 0; r < rows; ++r)
    for_vectors<T>(width, [&](std::int64_t i, std::int64_t lanes) {
      store_at(to + r * stride, i, lanes, load(from + r * columns + i) * factor);
    });
}

// The buckets of distances -kFar to kFar, beyond which nothing changes.
constexpr std::int64_t kFar = 128;
struct BucketTable {
  std::uint8_t bucket[2 * kFar + 1];
  constexpr BucketTable() : bucket() {
    for (std::int64_t i = 0; i <= 2 * kFar; ++i)
      bucket[i] = static_cast<std::uint8_t>(relative_position_bucket(i - kFar));
  }
  int operator()(std::int64_t distance) const {
    return bucket[kFar + (distance < -kFar ? -kFar : distance > kFar ? kFar : distance)];
  }
};
constexpr BucketTable kBucketOf;

// bias[L - 1 + key - query] of one head; the row of query i starts at bias + L - 1 - i.
template <class T, class S = scalar_t<T>>
void relative_bias(S* bias, const Item<T>& item) {
  const S* table = static_cast<const S*>(item.all.relative_bias) + item.head;
  for (std::int64_t i = 0; i < item.length + item.keys; ++i)
    bias[i] =
        i < 2 * item.length - 1 ? table[kBucketOf(i - (item.length - 1)) * item.all.heads] : S{0};
}

// The factors of dropout for one row of P.
template <class T, class S = scalar_t<T>>
RINGLET_INLINE void row_factors(S* factor, const Item<T>& item, const PhiloxSchedule& schedule,
                                std::int64_t query) {
  const S scale = static_cast<S>(item.all.dropout_scale);
  for (std::int64_t j = 0; j < item.keys; j += 32) {
    u32x16 words[2];
    philox32(schedule, item.id, static_cast<std::uint32_t>(item.head),
             static_cast<std::uint32_t>(query), static_cast<std::uint32_t>(j / 32), words);
    for (int half = 0; half < 2; ++half)
      if constexpr (sizeof(S) == 4) {
        store(factor + j + 16 * half, words[half] >= item.all.threshold ? splat(scale) : f32x16{});
      } else {
        for (int i = 0; i < 16; ++i)
          factor[j + 16 * half + i] = words[half][i] >= item.all.threshold ? scale : S{0};
      }
  }
}

template <class V>
RINGLET_INLINE V drop(V x, V factor) {
  return factor > 0 ? x * factor : V{};
}

// ---- forward ------------------------------------------------------------------------------

// One row of scores to dropout(softmax(scores + bias)); returns the log-sum-exp.
template <class S>
RINGLET_INLINE S softmax_row(S* scores, const S* bias, const S* factor, std::int64_t length) {
  constexpr int kLanes = Compute<S>::kLanes;
  const vector_t<S> lowest = splat(-static_cast<S>(INFINITY));
  vector_t<S> highest = lowest;
  for (std::int64_t j = 0; j < length; j += kLanes) {
    vector_t<S> s = load(scores + j);
    if (bias) s += load(bias + j);
    if (length - j < kLanes) s = first_lanes(s, length - j, lowest);
    store(scores + j, s);
    highest = max(s, highest);
  }
  const S top = max_lane(highest);
  vector_t<S> total = {};
  for (std::int64_t j = 0; j < length; j += kLanes) {
    const vector_t<S> e = exp(load(scores + j) - top);
    total += e;
    store(scores + j, e);
  }
  const S sum_exp = sum(total), inverse = 1 / sum_exp;
  for (std::int64_t j = 0; j < length; j += kLanes) {
    const vector_t<S> p = load(scores + j) * inverse;
    store(scores + j, factor ? drop(p, load(factor + j)) : p);
  }
  if constexpr (sizeof(S) == 4) {
    return top + __builtin_logf(sum_exp);
  } else {
    return top + __builtin_log(sum_exp);
  }
}

template <class T>
std::int64_t forward_memory(const Item<T>& item) {
  return item.length * item.columns + item.width * item.keys +
         kQueryBlock * (2 * item.columns + item.keys) + 3 * item.keys + 64;
}

template <class T>
void forward_item(const AttentionArgs& args, const Item<T>& item, const PhiloxSchedule& schedule) {
  using S = scalar_t<T>;
  const std::int64_t keys = item.keys, columns = item.columns, width = item.width;
  const Scratch memory(static_cast<std::size_t>(forward_memory(item)) * sizeof(S));
  Pieces<S> pieces(memory.as<S>());
  S* kt = pieces.take(width * keys);
  S* v = pieces.take(item.length * columns);
  S* q = pieces.take(kQueryBlock * columns);
  S* out = pieces.take(kQueryBlock * columns);
  S* p = pieces.take(kQueryBlock * keys);
  S* factor = item.all.threshold > 0 ? pieces.take(keys + 32) : nullptr;
  S* bias = item.all.relative_bias ? pieces.take(2 * keys) : nullptr;

  transpose(kt, keys, item.in(1), item.stride, item.length, width);
  gather_rows(v, columns, item.in(2), item.stride, item.length, width, S{1});
  if (bias) relative_bias(bias, item);
  S* lse = static_cast<S*>(args.lse) + item.head * item.all.tokens + item.first;
  for (std::int64_t begin = 0; begin < item.length; begin += kQueryBlock) {
    const std::int64_t rows = item.queries(begin);
    gather_rows(q, columns, item.in(0, begin), item.stride, rows, width,
                static_cast<S>(item.all.scale));
    small_matmul(p, keys, SmallMatrix<S>{q, columns, 1}, kt, keys, rows, keys, width);
    for (std::int64_t i = 0; i < rows; ++i) {
      const std::int64_t query = begin + i;
      if (factor) row_factors(factor, item, schedule, query);
      const S* row_bias = bias ? bias + item.length - 1 - query : nullptr;
      lse[query] = softmax_row<S>(p + i * keys, row_bias, factor, item.attended);
    }
    small_matmul(out, columns, SmallMatrix<S>{p, keys, 1}, v, columns, rows, columns,
                 item.attended);
    scatter_rows(static_cast<T*>(args.out) + item.out_offset(begin), item.all.heads * width, out,
                 columns, rows, width, S{1});
  }
}

void attention(const AttentionArgs& args, Device device) {
  dispatch_floating("attention", args.shape.dtype, [&]<class T>() {
    parallel_for(device, args.shape.sentences * args.shape.heads, 4,
                 [&](std::int64_t begin, std::int64_t end) {
                   const PhiloxSchedule keys = schedule(args.shape.key);
                   for (std::int64_t i = begin; i < end; ++i)
                     forward_item(args, Item<T>(args.shape, i), keys);
                 });
  });
}

// ---- backward -----------------------------------------------------------------------------

// One row: scores to dropout(P) and grad_p, the gradient of dropout(P), to that of the scores.
// `diagonals` (from the row's own start on) gathers the latter for the relative bias.
template <class S>
RINGLET_INLINE void backward_row(S* scores, S* grad_p, const S* bias, S lse, const S* factor,
                                 S* diagonals, std::int64_t length) {
  constexpr int kLanes = Compute<S>::kLanes;
  vector_t<S> total = {};
  for (std::int64_t j = 0; j < length; j += kLanes) {
    vector_t<S> s = load(scores + j) - lse;
    if (bias) s += load(bias + j);
    vector_t<S> p = exp(s), g = load(grad_p + j);
    if (length - j < kLanes) p = first_lanes(p, length - j, vector_t<S>{});
    if (factor) {
      g = drop(g, load(factor + j));
      store(grad_p + j, g);
    }
    store(scores + j, p);
    total = fma(p, g, total);
  }
  const S mean = sum(total);
  for (std::int64_t j = 0; j < length; j += kLanes) {
    const vector_t<S> p = load(scores + j);
    const vector_t<S> g = p * (load(grad_p + j) - mean);
    if (factor) store(scores + j, drop(p, load(factor + j)));
    store(grad_p + j, g);
    if (diagonals) store(diagonals + j, load(diagonals + j) + g);
  }
}

// Sums diagonals[L - 1 + key - query] by bucket.
template <class S>
void sum_buckets(S* buckets, const S* diagonals, std::int64_t length) {
  for (int b = 0; b < kRelativeBuckets; ++b) buckets[b] = 0;
  for (std::int64_t i = 0; i < 2 * length - 1; ++i)
    buckets[kBucketOf(i - (length - 1))] += diagonals[i];
}

template <class T>
std::int64_t backward_memory(const Item<T>& item) {
  return 3 * item.length * item.columns + 2 * item.width * item.keys +
         kQueryBlock * (3 * item.columns + 2 * item.keys) + 5 * item.keys + 128;
}

template <class T>
void backward_item(const AttentionBackwardArgs& args, const Item<T>& item,
                   const PhiloxSchedule& schedule) {
  using S = scalar_t<T>;
  const std::int64_t keys = item.keys, columns = item.columns, width = item.width;
  const std::int64_t length = item.length, out_stride = item.all.heads * width;
  const S scale = static_cast<S>(item.all.scale);
  const Scratch memory(static_cast<std::size_t>(backward_memory(item)) * sizeof(S));
  Pieces<S> pieces(memory.as<S>());
  S* kt = pieces.take(width * keys);
  S* vt = pieces.take(width * keys);
  S* k = pieces.take(length * columns);
  S* grad_k = pieces.take(length * columns);
  S* grad_v = pieces.take(length * columns);
  S* q = pieces.take(kQueryBlock * columns);
  S* grad_q = pieces.take(kQueryBlock * columns);
  S* grad = pieces.take(kQueryBlock * columns);
  S* p = pieces.take(kQueryBlock * keys);
  S* grad_p = pieces.take(kQueryBlock * keys);
  S* factor = item.all.threshold > 0 ? pieces.take(keys + 32) : nullptr;
  S* bias = item.all.relative_bias ? pieces.take(2 * keys) : nullptr;
  S* diagonals = args.partial ? pieces.take(2 * keys) : nullptr;

  transpose(kt, keys, item.in(1), item.stride, length, width);
  transpose(vt, keys, item.in(2), item.stride, length, width);
  gather_rows(k, columns, item.in(1), item.stride, length, width, S{1});
  if (bias) relative_bias(bias, item);
  // Nobody attends to padding, so its keys and values get no gradient.
  for (S* unattended : {grad_k + item.attended * columns, grad_v + item.attended * columns})
    memset(unattended, 0, static_cast<std::size_t>((length - item.attended) * columns) * sizeof(S));
  if (diagonals) memset(diagonals, 0, static_cast<std::size_t>(2 * keys) * sizeof(S));
  const S* lse = static_cast<const S*>(args.lse) + item.head * item.all.tokens + item.first;
  T* grad_qkv = static_cast<T*>(args.grad_qkv);
  for (std::int64_t begin = 0; begin < length; begin += kQueryBlock) {
    const std::int64_t rows = item.queries(begin);
    gather_rows(q, columns, item.in(0, begin), item.stride, rows, width, scale);
    gather_rows(grad, columns, static_cast<const T*>(args.grad) + item.out_offset(begin),
                out_stride, rows, width, S{1});
    small_matmul(p, keys, SmallMatrix<S>{q, columns, 1}, kt, keys, rows, keys, width);
    small_matmul(grad_p, keys, SmallMatrix<S>{grad, columns, 1}, vt, keys, rows, keys, width);
    for (std::int64_t i = 0; i < rows; ++i) {
      const std::int64_t query = begin + i, shift = length - 1 - query;
      if (factor) row_factors(factor, item, schedule, query);
      backward_row<S>(p + i * keys, grad_p + i * keys, bias ? bias + shift : nullptr, lse[query],
                      factor, diagonals ? diagonals + shift : nullptr, item.attended);
    }
    const bool adds = begin > 0;
    small_matmul(grad_v, columns, SmallMatrix<S>{p, 1, keys}, grad, columns, item.attended, columns,
                 rows, adds);
    small_matmul(grad_k, columns, SmallMatrix<S>{grad_p, 1, keys}, q, columns, item.attended,
                 columns, rows, adds);
    small_matmul(grad_q, columns, SmallMatrix<S>{grad_p, keys, 1}, k, columns, rows, columns,
                 item.attended);
    scatter_rows(grad_qkv + item.offset(0, begin), item.stride, grad_q, columns, rows, width,
                 scale);
  }
  scatter_rows(grad_qkv + item.offset(1, 0), item.stride, grad_k, columns, length, width, S{1});
  scatter_rows(grad_qkv + item.offset(2, 0), item.stride, grad_v, columns, length, width, S{1});
  if (diagonals)
    sum_buckets(static_cast<S*>(args.partial) +
                    (item.sentence * item.all.heads + item.head) * kRelativeBuckets,
                diagonals, length);
}

// grad_relative_bias (32, heads) = beta of itself + the shares of the sentences, in order.
template <class S>
void add_shares(const AttentionBackwardArgs& args) {
  constexpr int kLanes = Compute<S>::kLanes;
  const std::int64_t heads = args.shape.heads;
  S* out = static_cast<S*>(args.grad_relative_bias);
  for (std::int64_t head = 0; head < heads; ++head)
    for (int bucket = 0; bucket < kRelativeBuckets; bucket += kLanes) {
      vector_t<S> total = {};
      for (std::int64_t s = 0; s < args.shape.sentences; ++s)
        total += load(static_cast<const S*>(args.partial) + (s * heads + head) * kRelativeBuckets +
                      bucket);
      for (int lane = 0; lane < kLanes; ++lane) {
        S& to = out[(bucket + lane) * heads + head];
        to = args.beta != 0 ? to + total[lane] : total[lane];
      }
    }
}

void attention_backward(const AttentionBackwardArgs& args, Device device) {
  dispatch_floating("attention_backward", args.shape.dtype, [&]<class T>() {
    parallel_for(device, args.shape.sentences * args.shape.heads, 4,
                 [&](std::int64_t begin, std::int64_t end) {
                   const PhiloxSchedule keys = schedule(args.shape.key);
                   for (std::int64_t i = begin; i < end; ++i)
                     backward_item(args, Item<T>(args.shape, i), keys);
                 });
    if (args.grad_relative_bias) add_shares<scalar_t<T>>(args);
  });
}

}  // namespace

void register_attention() {
  attention_kernel.set(DeviceType::cpu, attention);
  attention_backward_kernel.set(DeviceType::cpu, attention_backward);
}

}  // namespace ringlet::cpu::RINGLET_ISA
