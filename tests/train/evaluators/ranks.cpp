// Evaluators of a model: on one rank and on three, and the prompts of queries and documents.
#include <doctest/doctest.h>

#include <mutex>

#include "../../device.h"
#include "../../files.h"
#include "../../oracle.h"
#include "../words.h"
#include "ringlet/core/io/file.h"
#include "ringlet/ringlet.h"
#include "ringlet/train/evaluators/information_retrieval_evaluator.h"

using namespace ringlet;
using namespace ringlet::train;

namespace {

models::SentenceEncoder encoder() {
  const GeneratorGuard guard({5, 0, 0});
  return models::SentenceEncoder(words::encoder_config(models::Architecture::bert),
                                 words::tokenizer());
}

/// Four queries, so that three ranks have unequal shares of them, and two with one document each.
RetrievalData retrieval() {
  RetrievalData data{.name = "words"};
  for (std::size_t i = 0; i < 23; ++i) {
    data.corpus.ids.push_back(str('d', i));
    data.corpus.texts.push_back(words::text(i * 5));  // some are equal
  }
  for (std::size_t i = 0; i < 4; ++i) {
    data.queries.ids.push_back(str('q', i));
    data.queries.texts.push_back(words::text(i * 3 + 1));
    data.relevant[str('q', i)] = {str('d', i), str('d', 7 * i % 23)};
  }
  return data;
}

TextDataset triplets() {
  TextDataset data("words", {"anchor", "positive", "negative"}, Target::none);
  for (std::size_t i = 0; i < 10; ++i) {
    const std::string a = words::text(i), p = words::text(i + 4), n = words::text(i * 7 + 2);
    data.add_row(std::vector<std::string_view>{a, p, n});
  }
  return data;
}

std::vector<RerankingSample> samples() {
  std::vector<RerankingSample> all;
  for (std::size_t i = 0; i < 5; ++i)
    all.push_back({words::text(i), {words::text(i + 4)}, {words::text(i + 1), words::text(i + 2)}});
  return all;
}

std::vector<std::shared_ptr<const Evaluator>> evaluators() {
  return {std::make_shared<BinaryClassificationEvaluator>(
              *words::dataset(10, 2), BinaryClassificationEvaluator::Options{.name = "dev"}),
          std::make_shared<TripletEvaluator>(triplets(), TripletEvaluator::Options{.name = "dev"}),
          std::make_shared<InformationRetrievalEvaluator>(
              retrieval(),
              InformationRetrievalEvaluator::Options{
                  .name = "dev",
                  .similarities = {Similarity::cosine, Similarity::manhattan},
                  .corpus_chunk_size = 9}),
          std::make_shared<RerankingEvaluator>(samples(), "words",
                                               RerankingEvaluator::Options{.name = "dev"}),
          std::make_shared<MSEEvaluator>(ones({2, 16}), std::vector<std::string>{"a b", "c"},
                                         MSEEvaluator::Options{.name = "dev"})};
}

}  // namespace

TEST_CASE("three ranks compute the figures of one, and one of them writes the tables") {
  for (const auto& evaluator : evaluators()) {
    CAPTURE(evaluator->kind());
    const TemporaryFolder alone, together;
    const Metrics expected = evaluator->evaluate(encoder(), {.output = alone.path()});
    std::mutex mutex;
    comm::launch(
        [&](const comm::Group& world) {
          const Metrics found =
              evaluator->evaluate(encoder(), {.output = together.path(), .group = world});
          const std::lock_guard lock(mutex);
          if (has_shape_free_products) CHECK(found == expected);
        },
        3);
    CHECK((*evaluator)(encoder()) == evaluator->report(encoder()).primary().second);
    REQUIRE(alone.entries() == 1);
    REQUIRE(together.entries() == 1);
    const auto table = std::filesystem::directory_iterator(alone.path())->path().filename();
    if (has_shape_free_products)
      CHECK(read_file(together / table.string()) == read_file(alone / table.string()));
  }
}

TEST_CASE("ranks encode the batches of one rank, with its bits on every device") {
  std::vector<std::string> texts;
  for (std::size_t i = 0; i < 23; ++i) texts.push_back(words::text(i * 5));  // some are equal
  const models::SentenceEncoder model = encoder();
  const Tensor whole = model.encode(texts, {.batch_tokens = 24});
  std::vector<int> encoded(texts.size());
  for (std::size_t rank = 0; rank < 3; ++rank) {
    const Tensor part = model.encode(texts, {.batch_tokens = 24, .rank = rank, .ranks = 3});
    const std::vector<float> nothing(static_cast<std::size_t>(part.size(1)));
    for (std::int64_t i = 0; i < part.size(0); ++i) {
      const std::vector<float> row = part[i].to_vector();
      if (row == nothing) continue;
      CHECK(row == whole[i].to_vector());
      ++encoded[static_cast<std::size_t>(i)];
    }
  }
  CHECK(encoded == std::vector<int>(texts.size(), 1));
}

TEST_CASE("queries and documents have the folder's prompts, without one not the default prompt") {
  const TemporaryFolder folder;
  std::filesystem::copy(oracle_folder() + "/bert", folder / "model",
                        std::filesystem::copy_options::recursive);
  write_file(folder / "model/config_sentence_transformers.json",
             R"({"prompts": {"query": "the dog ", "other": "a cat "},
                 "default_prompt_name": "other"})");
  const auto model = models::SentenceEncoder::from_pretrained(folder / "model");
  const std::vector<std::string> text{"runs"};
  const auto plainly = [&](const std::string& whole) {
    return model.encode(std::vector{whole}, {.prompt_name = ""}).to_vector();
  };
  const auto as = [&](TextRole role) { return encode_as(role, model, text, {}, {}).to_vector(); };
  CHECK(as(TextRole::query) == plainly("the dog runs"));
  CHECK(as(TextRole::document) == plainly("runs"));
  CHECK(as(TextRole::plain) == plainly("a cat runs"));
}
