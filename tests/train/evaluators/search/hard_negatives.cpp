#include "ringlet/train/evaluators/search/hard_negatives.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <mutex>
#include <set>

#include "../../../device.h"
#include "../../../oracle.h"
#include "ringlet/comm/launch.h"

using namespace ringlet;
using namespace ringlet::train;

namespace {

std::string numbered(char kind, std::int64_t i) { return str(kind, ' ', i); }
std::int64_t number_in(const std::string& text) { return std::stoll(text.substr(2)); }

/// The texts of the oracle: "a 3" is row 3 of the anchors, "d 5" row 5 of the documents.
struct MiningOracle {
  Oracle oracle{"mining"};
  Tensor anchors = oracle.tensor("mining/anchors"), documents = oracle.tensor("mining/documents");
  MiningTexts mining;

  explicit MiningOracle(bool with_corpus) {
    TextDataset pairs("pairs", {"anchor", "positive"}, Target::none);
    const auto rows = oracle.tensor("mining/pairs").to_vector<std::int64_t>();
    for (std::size_t i = 0; i < rows.size(); i += 2) {
      const std::string anchor = numbered('a', rows[i]), positive = numbered('d', rows[i + 1]);
      pairs.add_row(std::vector<std::string_view>{anchor, positive});
    }
    std::vector<std::string> corpus;
    for (std::int64_t i = 0; with_corpus && i < documents.size(0); ++i)
      corpus.push_back(numbered('d', i));
    mining = mining_texts(pairs, corpus);
  }

  static Tensor rows_of(const Tensor& table, const std::vector<std::string>& texts) {
    Tensor rows = empty({std::ssize(texts), table.size(1)}, DType::f32, table.device());
    for (std::size_t i = 0; i < texts.size(); ++i)
      rows[static_cast<std::int64_t>(i)].copy_(table[number_in(texts[i])]);
    return rows;
  }
  HardNegativeMiner miner(const MiningOptions& options) const {
    return {mining, rows_of(anchors, mining.anchors), Similarity::cosine, options};
  }
  std::vector<MinedAnchor> mined(const MiningOptions& options, std::int64_t piece = 1000) const {
    HardNegativeMiner found = miner(options);
    const Tensor rows = rows_of(documents, mining.corpus);
    for (std::int64_t begin = 0; begin < rows.size(0); begin += piece)
      found.add(rows.slice(begin, std::min(begin + piece, rows.size(0))));
    return found.finish();
  }
};

MiningOptions options_of(const Oracle& oracle, const std::string& name) {
  const auto set = [&](const char* option, auto& value) {
    using Value = std::remove_reference_t<decltype(value)>;
    if (oracle.contains(name + '/' + option))
      value = static_cast<
          std::conditional_t<std::is_same_v<Value, std::optional<double>>, double, std::int64_t>>(
          oracle.scalar(name + '/' + option));
  };
  MiningOptions options;
  set("num_negatives", options.num_negatives);
  set("range_min", options.range_min);
  set("range_max", options.range_max);
  set("max_score", options.max_score);
  set("min_score", options.min_score);
  set("absolute_margin", options.absolute_margin);
  set("relative_margin", options.relative_margin);
  return options;
}

}  // namespace

TEST_CASE("hard negatives are those of Sentence Transformers, under each option") {
  const Oracle oracle("mining");
  for (const std::string& name : oracle.cases("mined")) {
    CAPTURE(name);
    const MiningOracle texts(oracle.flag(name + "/corpus"));
    std::vector<std::int64_t> triplets;
    std::vector<float> scores;
    const auto found = texts.mined(options_of(oracle, name), 7);
    for (std::size_t anchor = 0; anchor < found.size(); ++anchor)
      for (std::size_t i = 0; i < found[anchor].positive_scores.size(); ++i)
        for (const Hit& hit : found[anchor].negatives) {
          const auto document = [&](std::int64_t row) {
            return number_in(texts.mining.corpus[static_cast<std::size_t>(row)]);
          };
          triplets.insert(triplets.end(),
                          {number_in(texts.mining.anchors[anchor]),
                           document(texts.mining.positives[anchor][i]), document(hit.row)});
          scores.insert(scores.end(), {found[anchor].positive_scores[i], hit.score});
        }
    CHECK(triplets == oracle.tensor(name + "/triplets").to_vector<std::int64_t>());
    const auto rows = std::ssize(scores) / 2;
    check_close(tensor(scores, {rows, 2}), oracle.tensor(name + "/scores"), 16 * kF32, name, 1);
  }
}

TEST_CASE("the pieces of the corpus change no bit") {
  const MiningOracle texts(/*with_corpus=*/true);
  const auto whole = texts.mined({}), pieces = texts.mined({}, 1);
  for (std::size_t i = 0; i < whole.size(); ++i) {
    CHECK(whole[i].positive_scores == pieces[i].positive_scores);
    CHECK(whole[i].negatives == pieces[i].negatives);
  }
}

TEST_CASE("ranks that search for shares of the anchors find what one rank finds") {
  const MiningOracle texts(/*with_corpus=*/true);
  const auto alone = texts.mined({.absolute_margin = 0.05});
  const std::vector<Tensor> inputs{MiningOracle::rows_of(texts.anchors, texts.mining.anchors),
                                   MiningOracle::rows_of(texts.documents, texts.mining.corpus)};
  std::mutex mutex;
  comm::launch(
      [&](const comm::Group& group) {  // 24 anchors: unequal shares
        HardNegativeMiner miner(texts.mining, inputs[0], Similarity::cosine,
                                {.absolute_margin = 0.05}, group);
        miner.add(inputs[1]);
        const auto found = miner.finish();
        const std::lock_guard lock(mutex);
        REQUIRE_EQ(found.size(), alone.size());
        for (std::size_t i = 0; has_shape_free_products && i < alone.size(); ++i) {
          CHECK(found[i].negatives == alone[i].negatives);
          CHECK(found[i].positive_scores == alone[i].positive_scores);
        }
      },
      5);
}

TEST_CASE("random negatives are candidates, each once, and depend on the seed") {
  const MiningOracle texts(/*with_corpus=*/true);
  const auto all = texts.mined({.num_negatives = 20, .range_min = 1, .range_max = 21});
  const auto random = [&](std::uint64_t seed) {
    return texts.mined({.num_negatives = 5,
                        .range_min = 1,
                        .range_max = 21,
                        .sampling = NegativeSampling::random,
                        .seed = seed});
  };
  const auto first = random(1), again = random(1), other = random(2);
  std::set<std::int64_t> ranks;
  bool differs = false;
  for (std::size_t i = 0; i < all.size(); ++i) {
    CHECK(first[i].negatives == again[i].negatives);
    CHECK(std::ranges::is_sorted(first[i].negatives, is_better));
    CHECK_EQ(first[i].negatives.size(), 5);
    differs = differs || first[i].negatives != other[i].negatives;
    for (const Hit& hit : first[i].negatives) {
      const auto at = std::ranges::find(all[i].negatives, hit);
      REQUIRE(at != all[i].negatives.end());
      ranks.insert(at - all[i].negatives.begin());
    }
  }
  CHECK(differs);
  CHECK_EQ(ranks.size(), 20);  // 24 anchors: every rank is drawn
}

TEST_CASE("a text with the embedding of a positive is as similar as the positive") {
  TextDataset pairs("pairs", {"anchor", "positive"}, Target::none);
  pairs.add_row(std::vector<std::string_view>{"a", "yes"});
  const MiningTexts texts = mining_texts(pairs, {"Yes", "no"});
  const Tensor anchor = tensor(std::vector<float>{0.3F, 0.7F, 0.9F}, {1, 3});
  const Tensor same = tensor(std::vector<float>{0.1F, 0.8F, 0.77F}, {1, 3});
  HardNegativeMiner miner(texts, anchor, Similarity::cosine, {.absolute_margin = 0.0});
  miner.add(same);
  miner.add(tensor(std::vector<float>{-0.4F, 0.3F, 0.1F}, {1, 3}));
  miner.add(same);
  const MinedAnchor found = miner.finish().front();
  REQUIRE_EQ(found.negatives.size(), 2);
  CHECK_EQ(found.negatives[0].row, 0);
  CHECK_EQ(found.negatives[0].score, found.positive_scores[0]);
  CHECK_EQ(found.negatives[1].row, 1);
  CHECK_EQ(miner.skipped().absolute_margin, 0);
}

TEST_CASE("a range without room for the negatives is refused, as are missing rows") {
  const MiningOracle texts(/*with_corpus=*/true);
  CHECK_EQ(range_max({}, texts.mining), 3 + 4);  // anchor 3 has four pairs, two of them equal
  CHECK_EQ(range_max({.range_min = 2, .max_score = 0.5}, texts.mining), 2 + 30 + 4);
  CHECK_THROWS_WITH_AS(range_max({.range_min = 4, .range_max = 6}, texts.mining),
                       "expected a range_max of at least 7, range_min plus num_negatives, found 6",
                       InputError);
  CHECK_THROWS_AS(texts.miner({}).finish(), Error);
}
