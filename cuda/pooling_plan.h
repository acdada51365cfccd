// The assignment of columns to threads. A thread pools a few neighbouring columns of one sentence
// and reads its tokens in order.
#pragma once

#include <cstdint>

#include "ringlet/core/base/host_device.h"
#include "ringlet/core/ops/bad_input.h"

namespace ringlet::cuda {

struct PoolingPiece {
  std::int64_t sentence;
  std::int64_t column;  // the first of them
  std::int64_t begin;   // its first token
  std::int64_t end;     // behind the last that counts
  std::int64_t limit;   // behind the last
};

/// `Args` has sentences, tokens, columns, cu_seqlens (sentences + 1) and lengths (sentences), null
/// where all tokens of a sentence count; pieces have `kColumns` columns, the last of a sentence
/// what is left. A sentence out of bounds has no tokens.
template <int kColumns, class Args>
RINGLET_HOST_DEVICE std::int64_t count_pieces(const Args& args) {
  return args.sentences * ((args.columns + kColumns - 1) / kColumns);
}

template <int kColumns, class Args>
RINGLET_HOST_DEVICE PoolingPiece piece_of(const Args& args, std::int64_t i) {
  const std::int64_t per_sentence = (args.columns + kColumns - 1) / kColumns;
  const std::int64_t s = i / per_sentence, begin = args.cu_seqlens[s];
  if (!bounds_of(args).hold(s)) return {s, i % per_sentence * kColumns, 0, 0, 0};
  const std::int64_t limit = args.cu_seqlens[s + 1];
  return {s, i % per_sentence * kColumns, begin, args.lengths ? begin + args.lengths[s] : limit,
          limit};
}

}  // namespace ringlet::cuda
