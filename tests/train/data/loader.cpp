#include "ringlet/train/data/loader.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <set>

#include "../../files.h"
#include "../words.h"
#include "ringlet/core/io/file.h"
#include "ringlet/core/threads/thread.h"

using namespace ringlet;
using namespace ringlet::train;
using models::PackedBatch;

namespace {

std::vector<std::int32_t> ids(const PackedBatch& batch) {
  return batch.token_ids.to_vector<std::int32_t>();
}

/// All inputs of a model from some batches.
std::vector<std::vector<std::int32_t>> contents(Loader<PackedBatch>& loader) {
  std::vector<std::vector<std::int32_t>> all;
  for (const PackedBatch& batch : loader) {
    all.push_back(ids(batch));
    all.push_back(batch.positions.to_vector<std::int32_t>());
  }
  return all;
}

std::multiset<std::int64_t> labels(const PackedBatch& batch) {
  const auto values = batch.labels.to_vector<std::int64_t>();
  return {values.begin(), values.end()};
}

}  // namespace

TEST_CASE("a loader packs the rows of a file, both sentences in one batch") {
  TemporaryFolder folder;
  write_file(folder / "pairs.csv", "sentence1,sentence2,label\na b,c,1\nd,a,0\n");
  std::size_t batches = 0;
  for (const PackedBatch& batch :
       Loader(folder / "pairs.csv", words::tokenizer(), {.batch_size = 2, .shuffle = false})) {
    using namespace words;
    ++batches;
    CHECK(ids(batch) == std::vector<std::int32_t>{kCls, kA, kB, kSep, kCls, kD, kSep, kCls, kC,
                                                  kSep, kCls, kA, kSep});
    CHECK(batch.rows == 2);
    CHECK(batch.global_rows == 2);
    CHECK(batch.labels.to_vector<std::int64_t>() == std::vector<std::int64_t>{1, 0});
  }
  CHECK(batches == 1);
}

TEST_CASE("an epoch gives every row once; the next loop is the next epoch in another order") {
  const auto data = words::dataset(10);
  Loader loader({data}, words::tokenizer(), {.batch_size = 4});
  std::vector<std::int64_t> order[2];
  for (std::size_t epoch = 0; epoch < 2; ++epoch) {
    CHECK(loader.position() == Position{epoch, 0});
    std::vector<std::int64_t> rows;
    for (const PackedBatch& batch : loader) {
      rows.push_back(batch.rows);
      for (const std::int64_t label : batch.labels.to_vector<std::int64_t>())
        order[epoch].push_back(label);
    }
    std::sort(rows.begin(), rows.end());
    CHECK(rows == std::vector<std::int64_t>{2, 4, 4});
    CHECK(std::set<std::int64_t>(order[epoch].begin(), order[epoch].end()).size() == 10);
  }
  CHECK(order[0] != order[1]);
}

TEST_CASE("a loader goes on from any position with the same batches") {
  const auto data = words::dataset(20);
  const LoaderOptions options{.batch_size = 3, .seed = 5};
  Loader whole({data}, words::tokenizer(), options), late({data}, words::tokenizer(), options);
  const auto all = contents(whole);
  late.seek({0, 4});
  const auto tail = contents(late);
  REQUIRE(tail.size() == 2 * 3);
  CHECK(std::equal(tail.begin(), tail.end(), all.begin() + 2 * 4));

  // Leaving a loop early loses no batch, however far the packing thread has gone.
  late.seek({0, 0});
  for ([[maybe_unused]] const PackedBatch& batch : late) break;
  CHECK(late.position() == Position{0, 1});
  CHECK(ids(*late.next()) == all[2]);
}

TEST_CASE("ranks and micro-batches are parts of one global batch") {
  const auto data = words::dataset(24);
  Loader one({data}, words::tokenizer(), {.batch_size = 12});
  const PackedBatch whole = *one.next();
  std::multiset<std::int64_t> dealt;
  std::set<std::int32_t> sentences;
  std::vector<std::int64_t> tokens;
  for (std::size_t rank = 0; rank < 3; ++rank) {
    Loader loader({data}, words::tokenizer(),
                  {.batch_size = 2, .accumulation = 2, .rank = rank, .world_size = 3});
    for (int micro = 0; micro < 2; ++micro) {
      CHECK(loader.position() == Position{0, 0});
      const PackedBatch& batch = *loader.next();
      CHECK(batch.global_rows == 12);
      CHECK(batch.rows == 2);
      dealt.merge(labels(batch));
      for (const auto id : batch.sentence_ids.to_vector<std::int32_t>()) sentences.insert(id);
      tokens.push_back(batch.real_tokens);
    }
    CHECK(loader.position() == Position{0, 1});
  }
  CHECK(dealt == labels(whole));
  CHECK(sentences.size() == 24);
  const auto [least, most] = std::minmax_element(tokens.begin(), tokens.end());
  CHECK(*most - *least <= 4);  // the longest row has 12 tokens, the shortest 6
}

TEST_CASE("rows are dealt to near-equal tokens, never more than a fair share of rows") {
  using Dealt = std::vector<std::vector<std::size_t>>;
  CHECK(deal_rows({9, 1, 1, 8}, 2) == Dealt{{0, 2}, {1, 3}});
  CHECK(deal_rows({5, 1, 1, 1, 1, 1}, 2) == Dealt{{0, 4, 5}, {1, 2, 3}});
  CHECK(deal_rows({7}, 3) == Dealt{{0}, {}, {}});
  CHECK(deal_rows({}, 2) == Dealt{{}, {}});
}

TEST_CASE("a rank without rows gets an empty batch with labels") {
  const auto data = words::dataset(5);
  Loader loader({data}, words::tokenizer(),
                {.batch_size = 2, .shuffle = false, .rank = 1, .world_size = 2});
  CHECK(loader.next()->rows == 2);
  const PackedBatch& last = *loader.next();
  CHECK(last.rows == 0);
  CHECK(last.global_rows == 1);
  CHECK(last.tokens() == 0);
  CHECK(last.labels.shape() == Shape{0});
}

TEST_CASE("rows with embeddings give them as the batch's labels, (rows, D)") {
  TextDataset data("texts", {"sentence"}, Target::none);
  for (const char* text : {"a", "b", "c"}) data.add_row(std::vector<std::string_view>{text});
  CHECK_THROWS_AS(data.set_embeddings(zeros({2, 2}), "teacher"), Error);
  data.set_embeddings(tensor(std::vector<float>{1, 2, 3, 4, 5, 6}, {3, 2}), "teacher");
  CHECK_THROWS_AS(data.set_embeddings(zeros({3, 2}), "again"), Error);
  CHECK_THROWS_AS(data.score(0), Error);
  const std::vector<std::size_t> rows{2, 0};
  const TextDataset chosen = data.select(rows);
  CHECK(chosen.texts(0)[0] == "c");
  CHECK(chosen.embeddings().to_vector() == std::vector<float>{5, 6, 1, 2});
  const auto shared = std::make_shared<const TextDataset>(data);
  std::multiset<float> firsts;
  for (std::size_t rank = 0; rank < 2; ++rank) {
    Loader loader({shared}, words::tokenizer(),
                  {.batch_size = 1, .shuffle = false, .rank = rank, .world_size = 2});
    for (const PackedBatch& batch : loader) {
      CHECK(batch.labels.shape() == Shape{batch.rows, 2});
      if (batch.rows == 1) firsts.insert(batch.labels.to_vector()[0]);
    }
    CHECK(loader.arguments().at("--data") ==
          str("3 rows, SHA-256 ", data.digest(), ", embeddings of teacher"));
  }
  CHECK(firsts == std::multiset<float>{1, 3, 5});
}

TEST_CASE("texts are cut to max_length, and padded where asked") {
  const auto data =
      std::make_shared<TextDataset>("rows", std::vector<std::string>{"sentence"}, Target::none);
  data->add_row(std::vector<std::string_view>{"a b c d"});
  data->add_row(std::vector<std::string_view>{"a"});
  Loader loader({data}, words::tokenizer(),
                {.batch_size = 2, .shuffle = false, .max_length = 4, .padded = true});
  using namespace words;
  const PackedBatch& batch = *loader.next();
  CHECK(ids(batch) == std::vector<std::int32_t>{kCls, kA, kB, kSep, kCls, kA, kSep, kPad});
  CHECK(batch.lengths.to_vector<std::int32_t>() == std::vector<std::int32_t>{4, 3});
  CHECK_FALSE(batch.labels.defined());
}

TEST_CASE("kept token ids are those of tokenising again") {
  const auto data = words::dataset(30);
  const auto kept = collate_texts(data, words::tokenizer(), {});
  for (int round = 0; round < 2; ++round)
    for (const std::size_t row : {29u, 3u, 0u, 17u}) {
      const std::vector<std::size_t> one{row};
      const PackedBatch a = kept(Rows(one)),
                        b = collate_texts(data, words::tokenizer(), {})(Rows(one));
      CHECK(ids(a) == ids(b));
      CHECK(a.sentences() == 2);
    }
}

TEST_CASE("one thread makes all batches, those of the next epoch ahead of its first step") {
  const auto data = words::dataset(12);
  Loader loader({data}, words::tokenizer(), {.batch_size = 4}),
      other({data}, words::tokenizer(), {.batch_size = 4});
  const std::uint64_t before = threads_started;
  for (std::size_t epoch = 0; epoch < 5; ++epoch) {
    for (std::size_t step = 0; step < 3; ++step) {
      CHECK(loader.position() == Position{epoch, step});
      REQUIRE(loader.next());
    }
    CHECK(loader.position() == Position{epoch + 1, 0});
    CHECK(loader.next() == nullptr);
    CHECK(loader.position() == Position{epoch + 1, 0});
  }
  CHECK(threads_started - before == 1);
  other.seek({5, 0});
  CHECK(ids(*loader.next()) == ids(*other.next()));
}

TEST_CASE("waiting for a batch is counted") {
  Loader loader({words::dataset(8)}, words::tokenizer(), {.batch_size = 4});
  CHECK(loader.seconds_waited() == 0);
  static_cast<void>(loader.next());
  CHECK(loader.seconds_waited() > 0);
}

TEST_CASE("an error on the packing thread reaches the caller") {
  const auto data = words::dataset(4);
  Loader loader({data}, words::tokenizer(), {.batch_size = 2});
  loader.seek({0, 7});
  CHECK_THROWS_WITH_AS(loader.next(), "[Loader] epoch 0 has 2 steps, not a step 7", Error);
  loader.seek({0, 0});
  CHECK(loader.next()->rows == 2);
}

TEST_CASE("sizes that make no batch are refused") {
  const auto data = words::dataset(4);
  CHECK_THROWS_WITH_AS(Loader({data}, words::tokenizer(), {.batch_size = 0}),
                       "batch_size: expected at least 1, found 0", InputError);
  CHECK_THROWS_WITH_AS(Loader({data}, words::tokenizer(), {.batch_size = 5}),
                       "batch_size: expected at most the 4 rows of words, found 5", InputError);
  CHECK_THROWS_AS(Loader({data}, words::tokenizer(), {.batch_size = 1, .accumulation = 0}),
                  InputError);
}

TEST_CASE(
    "a loader that is dealt anew shares out the same steps, and marks the last batch of each") {
  TemporaryFolder folder;
  std::string text = "sentence1,sentence2,label\n";
  for (int i = 0; i < 10; ++i) text += str("a b,c,", i, '\n');
  write_file(folder / "pairs.csv", text);
  std::multiset<std::int64_t> all;
  for (std::size_t rank = 0; rank < 2; ++rank) {
    Loader loader(folder / "pairs.csv", words::tokenizer(),
                  {.batch_size = 2, .rank = rank, .world_size = 2});
    loader.deal(comm::Group(), /*accumulation=*/2, /*split_batches=*/false);
    std::size_t steps = 0;
    for (const PackedBatch& batch : loader) {
      CHECK(loader.share().rows == static_cast<std::size_t>(batch.rows));
      CHECK(loader.share().factor == 1);
      steps += loader.share().ends_step;
      all.merge(labels(batch));
    }
    CHECK(steps == 2);
  }
  CHECK(all.size() == 10);
}
