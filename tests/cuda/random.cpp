// CUDA's random numbers and masks, computed on the host by the kernels' functions, equal the CPU's.
#include "ringlet/cuda/random.h"

#include <doctest/doctest.h>

namespace ringlet::cuda {
namespace {

template <class T>
void check_draws(Distribution distribution, double first, double second) {
  constexpr std::int64_t kN = 1003;
  Generator generator{5, 3, 1}, same = generator;
  const PhiloxKey key = same.next_key();
  const bool flat = distribution == Distribution::uniform;
  const Tensor expected = flat ? uniform({kN}, first, second, dtype_of<T>(), {}, generator)
                               : normal({kN}, first, second, dtype_of<T>(), {}, generator);
  for (std::int64_t i = 0; i < kN; ++i) {
    const PhiloxBlock words = tensor_words(i / 4, key);
    const std::int64_t pair = i % 4 / 2 * 2;
    const NormalPair numbers = normal_of(words.word[pair], words.word[pair + 1], first, second);
    const double value = flat         ? uniform_of(words.word[i % 4], first, second)
                         : i % 2 == 0 ? numbers.first
                                      : numbers.second;
    CHECK(expected.data<T>()[i] == static_cast<T>(value));
  }
}

TEST_CASE("cuda random: draws are the CPU's, bit for bit") {
  check_draws<float>(Distribution::uniform, -1, 3);
  check_draws<double>(Distribution::uniform, 0.1, 0.7);
  check_draws<float>(Distribution::normal, 0.5, 2);
  check_draws<double>(Distribution::normal, 0, 1);
}

void check_mask(std::int64_t rows, std::int64_t columns, float p, const Tensor& positions) {
  const DropoutKey key{p, 11, 4, 2};
  const Tensor expected = dropout_mask(rows, columns, key, positions);
  const RowDropout dropout = row_dropout("test", key, positions, rows);
  for (std::int64_t row = 0; row < rows; ++row)
    for (std::int64_t column = 0; column < columns; ++column) {
      const std::uint32_t word = row_words(dropout, row, column / 4).word[column % 4];
      const bool kept = expected.data<std::uint8_t>()[row * columns + column] != 0;
      CHECK((word >= dropout.threshold) == kept);
      CHECK(drop(3.0f, word, dropout) == (kept ? 3.0f * static_cast<float>(dropout.scale) : 0.0f));
    }
}

TEST_CASE("cuda random: dropout keeps what the CPU keeps") {
  Tensor positions = empty({3, 2}, DType::i32);
  for (std::int32_t i = 0; i < 6; ++i) positions.mutable_data<std::int32_t>()[i] = 100 - 17 * i;
  check_mask(3, 70, 0.3f, {});
  check_mask(3, 64, 0.3f, positions);
  check_mask(2, 5, 0.0f, {});
}

}  // namespace
}  // namespace ringlet::cuda
