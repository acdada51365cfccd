#include "ringlet/cuda/row_dropout.h"

#include <doctest/doctest.h>

#include <vector>

using namespace ringlet;

namespace {

constexpr std::int64_t kDroppedRows = 6, kDroppedColumns = 72;

// The mask and the dropped elements of the device code, kCount columns at a time.
template <int kCount>
void check_drops(const DropoutKey& key, const Tensor& positions) {
  CAPTURE(kCount);
  const Tensor mask = dropout_mask(kDroppedRows, kDroppedColumns, key, positions);
  const Tensor ones_dropped = dropout(ones({kDroppedRows, kDroppedColumns}), key, positions);
  const auto expected = mask.to_vector<std::uint8_t>();
  const auto scaled = ones_dropped.to_vector();
  const RowDropout how = row_dropout("test", key, positions, kDroppedRows);
  for (std::int64_t row = 0; row < kDroppedRows; ++row)
    for (std::int64_t column = 0; column < kDroppedColumns; column += kCount) {
      const std::uint32_t kept = cuda::kept_bits<kCount>(how, cuda::place_of(how, row), column);
      float x[kCount];
      for (float& value : x) value = 1;
      cuda::drop(x, kept, how);
      for (int i = 0; i < kCount; ++i) {
        const auto at = static_cast<std::size_t>(row * kDroppedColumns + column + i);
        CHECK((kept >> i & 1u) == expected[at]);
        CHECK(x[i] == scaled[at]);
      }
      if (kCount < 32) CHECK((kept >> (kCount % 32)) == 0);
    }
}

}  // namespace

TEST_CASE("cuda: masks of several runs or rows of columns are those of each") {
  const DropoutKey key{.p = 0.5f, .seed = 1, .step = 9, .site = 2};
  const RowDropout how = row_dropout("test", key, {}, 16);
  for (std::int64_t row : {0, 5}) {
    const std::uint32_t runs = cuda::kept_runs<4, 8>(how, row, 16, 256);
    const std::uint32_t rows = cuda::kept_rows<4, 8>(how, row, row + 3, 40);
    for (int k = 0; k < 4; ++k) {
      CHECK((runs >> 8 * k & 255u) ==
            cuda::kept_bits<8>(how, cuda::place_of(how, row), 16 + 256 * k));
      const std::uint32_t expected =
          k < 3 ? cuda::kept_bits<8>(how, cuda::place_of(how, row + k), 40) : 0;
      CHECK((rows >> 8 * k & 255u) == expected);
    }
  }
}

TEST_CASE("cuda: a key in the device's memory is read where the one by value would be") {
  const DropoutKey key{.p = 0.5f, .seed = 1, .step = 9, .site = 2};
  PhiloxKey there = derive_key(1, 9, 2);
  RowDropout how = row_dropout("test", {.p = 0.5f, .at = &there}, {}, 16);
  const RowDropout expected = row_dropout("test", key, {}, 16);
  const cuda::RowPlace at{3, 4};
  CHECK(cuda::kept_bits<32>(how, at, 64) == cuda::kept_bits<32>(expected, at, 64));
  there = derive_key(1, 10, 2);
  CHECK(cuda::kept_bits<32>(how, at, 64) != cuda::kept_bits<32>(expected, at, 64));
}

TEST_CASE("cuda: kernels that drop on their way keep what dropout() keeps") {
  const DropoutKey key{.p = 0.3f, .seed = 6, .step = 2, .site = 4};
  const Tensor positions =
      tensor(std::vector<std::int32_t>{8, 0, 8, 1, 21, 0, 21, 1, 3, 7, -1, 2}, {kDroppedRows, 2});
  for (const Tensor& at : {positions, Tensor()}) {
    check_drops<1>(key, at);
    check_drops<2>(key, at);
    check_drops<4>(key, at);
    check_drops<8>(key, at);
  }
}
