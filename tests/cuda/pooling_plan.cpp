// The division of pooling on a GPU, on the host: every column of every sentence once, over its
// tokens.
#include "ringlet/cuda/pooling_plan.h"

#include <doctest/doctest.h>

#include <vector>

#include "ringlet/core/ops/pooling.h"

using namespace ringlet;
using namespace ringlet::cuda;

namespace {

template <int kColumns>
void check(std::int64_t columns, const std::int32_t* lengths) {
  const std::vector<std::int32_t> cu_seqlens{0, 5, 5, 6, 70};
  PoolingArgs args{};
  args.sentences = 4;
  args.tokens = cu_seqlens.back();
  args.columns = columns;
  args.cu_seqlens = cu_seqlens.data();
  args.lengths = lengths;
  std::vector<int> covered(static_cast<std::size_t>(args.sentences * columns));
  for (std::int64_t i = 0; i < count_pieces<kColumns>(args); ++i) {
    const PoolingPiece piece = piece_of<kColumns>(args, i);
    const auto s = static_cast<std::size_t>(piece.sentence);
    REQUIRE(s < 4);
    CHECK(piece.begin == cu_seqlens[s]);
    CHECK(piece.limit == cu_seqlens[s + 1]);
    CHECK(piece.end == (lengths ? cu_seqlens[s] + lengths[s] : cu_seqlens[s + 1]));
    for (int c = 0; c < kColumns && piece.column + c < columns; ++c)
      ++covered[static_cast<std::size_t>(piece.sentence * columns + piece.column + c)];
  }
  CHECK(covered == std::vector<int>(covered.size(), 1));
}

}  // namespace

TEST_CASE("pieces of pooling have every column of every sentence once") {
  const std::int32_t lengths[] = {3, 0, 1, 64};
  for (const std::int64_t columns : {1, 7, 8, 9, 768}) {
    CAPTURE(columns);
    check<1>(columns, nullptr);
    check<4>(columns, lengths);
    check<8>(columns, nullptr);
    check<8>(columns, lengths);
  }
}
