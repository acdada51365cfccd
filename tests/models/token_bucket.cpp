#include "ringlet/models/batch.h"

#include <doctest/doctest.h>

#include "../delayed_device.h"
#include "../device.h"
#include "oracle_batch.h"
#include "ringlet/core/device/backend.h"
#include "ringlet/core/tensor/random.h"
#include "ringlet/models/config.h"
#include "ringlet/models/losses/losses.h"

using namespace ringlet;
using namespace ringlet::models;

namespace {

std::vector<std::vector<float>> gradients(Loss& loss, const PackedBatch& batch) {
  const GeneratorGuard seeded(RandomGenerator{7, 3, 0});
  return bits_of(loss_and_gradients(loss, batch.to(default_device())));
}

void set_ids_behind(PackedBatch& batch, std::int64_t from, std::int32_t id) {
  for (std::int64_t t = from; t < batch.tokens(); ++t) batch.token_ids[t].fill_(id);
}

}  // namespace

TEST_CASE("buckets of tokens: whole 64 up to 1,536, whole 128 up to 3,072, none beyond") {
  CHECK(token_bucket(0) == 0);
  CHECK(token_bucket(1) == 64);
  CHECK(token_bucket(64) == 64);
  CHECK(token_bucket(65) == 128);
  CHECK(token_bucket(1536) == 1536);
  CHECK(token_bucket(1537) == 1664);
  CHECK(token_bucket(1600) == 1664);
  CHECK(token_bucket(3072) == 3072);
  CHECK(token_bucket(3073) == 0);
  // The buckets of batches of 512 to 3,072 tokens.
  std::int64_t buckets = 0, last = 0;
  for (std::int64_t tokens = 512; tokens <= kLongestBucket; ++tokens) {
    CHECK(token_bucket(tokens) >= tokens);
    if (token_bucket(tokens) != last) ++buckets;
    last = token_bucket(tokens);
  }
  CHECK(buckets == 29);
}

TEST_CASE("classes of longest sentences: 32 to 512, none beyond") {
  CHECK(length_class(0) == 32);
  CHECK(length_class(32) == 32);
  CHECK(length_class(33) == 64);
  CHECK(length_class(128) == 128);
  CHECK(length_class(129) == 256);
  CHECK(length_class(512) == 512);
  CHECK(length_class(513) == 0);
}

TEST_CASE("a batch has a bucket where both its tokens and its longest sentence do") {
  PackedBatch batch;
  batch.token_ids = zeros({65}, DType::i32, Device{});
  batch.max_length = 40;
  CHECK(bucket_of(batch) == 128);
  batch.max_length = 513;
  CHECK(bucket_of(batch) == 0);
  batch.token_ids = zeros({3073}, DType::i32, Device{});
  batch.max_length = 512;
  CHECK(bucket_of(batch) == 0);
  CHECK(bucket_of(PackedBatch()) == 0);
}

TEST_CASE_FIXTURE(OnCpu, "counted positions leave out padding, which has its own position") {
  BatchBuilder builder;
  const std::vector<std::int32_t> shorter{0, kCountedPadding, 5}, longer{0, 6, 7, 8, 2};
  for (const std::span<const std::int32_t> row : {std::span(shorter), std::span(longer)})
    builder.add_row({&row, 1}, 0);
  const PackedBatch batch = builder.build(0, true, kCountedPadding);
  CHECK(batch.counted_position.to_vector<std::int32_t>() ==
        std::vector<std::int32_t>{2, 1, 3, 1, 1, 2, 3, 4, 5, 6});
}

TEST_CASE_FIXTURE(OnCpu, "a batch is filled up behind its last sentence, as padding of it") {
  BatchBuilder builder(2);
  const std::vector<std::int32_t> first{5, 6}, second{7, 8, 9};
  const std::span<const std::int32_t> row[] = {first, second};
  builder.add_row(row, 0);
  builder.add_row(row, 1);
  const PackedBatch batch = builder.build();
  const PackedBatch filled = filled_up(batch, 12);
  CHECK(filled.tokens() == 12);
  CHECK(filled.token_ids.to_vector<std::int32_t>() ==
        std::vector<std::int32_t>{5, 6, 5, 6, 7, 8, 9, 7, 8, 9, 0, 0});
  CHECK(filled.cu_seqlens.to_vector<std::int32_t>() == std::vector<std::int32_t>{0, 2, 4, 7, 12});
  CHECK(filled.lengths.to_vector<std::int32_t>() == std::vector<std::int32_t>{2, 2, 3, 3});
  CHECK(filled.positions.shape() == Shape{12, 2});
  CHECK(filled.token_index.to_vector<std::int32_t>()[11] == 0);
  CHECK(filled.max_length == 3);
  CHECK(filled.real_tokens == 10);
  CHECK(filled.sentences() == 4);

  PackedBatch wrong = batch;
  wrong.cu_seqlens = tensor<std::int32_t>({0, 2, 4, 7, 9});
  CHECK_THROWS_AS(filled_up(wrong, 12), Error);

  const PackedBatch same = filled_up(batch, 10);
  CHECK(same.cu_seqlens.to_vector<std::int32_t>() == batch.cu_seqlens.to_vector<std::int32_t>());
  CHECK(same.lengths.defined());  // all batches of a bucket have the same fields
  CHECK_THROWS_AS(filled_up(batch, 9), Error);
  CHECK_THROWS_AS(filled_up(BatchBuilder().build(), 64), Error);
}

TEST_CASE_FIXTURE(OnCpu, "dummy tokens change nothing: loss and all gradients of a filled batch") {
  for (const char* name : {"bert", "mpnet"})
    for (const DType dtype : {DType::f32, DType::bf16}) {
      CAPTURE(name);
      CAPTURE(dtype);
      const Oracle oracle(name);
      const SentenceEncoder encoder = load(name);
      encoder.transformer()->set_compute_dtype(dtype);
      encoder.transformer()->train();  // with dropout
      SoftmaxLoss softmax(encoder, 3);
      MultipleNegativesRankingLoss ranking(encoder);
      const PackedBatch batch = pair_batch(oracle, 0);
      for (Loss* loss : {static_cast<Loss*>(&softmax), static_cast<Loss*>(&ranking)}) {
        const auto expected = gradients(*loss, batch);
        PackedBatch filled = filled_up(batch, token_bucket(batch.tokens()));
        REQUIRE(filled.tokens() > batch.tokens());
        const auto found = gradients(*loss, filled);
        CHECK(found == expected);
        set_ids_behind(filled, batch.tokens(), 17);
        CHECK(gradients(*loss, filled) == found);
      }
    }
}

TEST_CASE_FIXTURE(OnCpu, "a batch goes to a GPU in one copy, and another one's values behind it") {
  if (has_backend(DeviceType::cuda)) return;
  const DelayedDevice delayed;
  const auto batch_of = [](std::int32_t id, std::size_t length, std::int64_t label) {
    BatchBuilder builder(2);
    const std::vector<std::int32_t> first(length, id), second(3, id + 1);
    const std::span<const std::int32_t> texts[] = {first, second};
    builder.add_row(texts, label);
    builder.add_label(label);
    return filled_up(builder.build(), 64);
  };
  const auto check_same = [](const PackedBatch& a, const PackedBatch& b) {
    for (Tensor PackedBatch::*part :
         {&PackedBatch::token_ids, &PackedBatch::token_index, &PackedBatch::counted_position,
          &PackedBatch::positions, &PackedBatch::cu_seqlens, &PackedBatch::lengths,
          &PackedBatch::sentence_ids, &PackedBatch::labels}) {
      CHECK((a.*part).storage() == a.token_ids.storage());
      CHECK((a.*part).shape() == (b.*part).shape());
      CHECK((a.*part).dtype() == (b.*part).dtype());
      CHECK((a.*part).to_vector<std::int64_t>() == (b.*part).to_vector<std::int64_t>());
    }
    CHECK(a.real_tokens == b.real_tokens);
  };
  const PackedBatch one = batch_of(5, 4, 1), other = batch_of(7, 9, 2);
  PackedBatch moved = one.to({DeviceType::cuda, 0});
  CHECK(delayed.uploads() == 1);
  check_same(moved, one);
  const std::byte* const place = moved.labels.bytes();
  moved.fill_(other);
  CHECK(delayed.uploads() == 2);
  check_same(moved, other);
  CHECK(moved.labels.bytes() == place);
  PackedBatch padded = other;
  padded.lengths = Tensor();
  CHECK_THROWS_AS(moved.fill_(padded), Error);
}
