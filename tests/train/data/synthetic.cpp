#include "ringlet/ringlet.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <set>
#include <sstream>

#include "ringlet/core/io/file.h"
#include "ringlet/tests/files.h"

using namespace ringlet;
using namespace ringlet::train;

namespace {

constexpr SyntheticSizes kSmall{30, 9, 20, 5, 40, 10};

double count_words(const std::string& text) {
  return 1.0 + static_cast<double>(std::count(text.begin(), text.end(), ' '));
}

using Words = std::set<std::string>;

Words words_of(const std::string& text) {
  std::istringstream stream(text);
  Words words;
  for (std::string word; stream >> word;) words.insert(word);
  return words;
}

using Features = Words (*)(const TextPair&);

Words of_premise(const TextPair& pair) { return words_of(pair.sentence1); }
Words of_hypothesis(const TextPair& pair) { return words_of(pair.sentence2); }

/// The words of only one of the sentences, and pairs of such words.
Words of_difference(const TextPair& pair) {
  const Words premise = words_of(pair.sentence1);
  const Words hypothesis = words_of(pair.sentence2);
  Words features;
  for (const std::string& theirs : hypothesis) {
    if (premise.contains(theirs)) continue;
    features.insert("+" + theirs);
    for (const std::string& ours : premise) {
      if (!hypothesis.contains(ours)) features.insert(ours + ">" + theirs);
    }
  }
  return features;
}

/// Accuracy on dev of naive Bayes with these features.
double guess_from(const TextSplits& splits, Features features) {
  std::map<std::string, std::array<double, 3>> counts;
  for (const TextPair& pair : splits.train) {
    for (const std::string& feature : features(pair)) {
      counts[feature][static_cast<std::size_t>(pair.target)] += 1;
    }
  }
  const double rows = static_cast<double>(splits.train.size()) / 3;
  double right = 0;
  for (const TextPair& pair : splits.dev) {
    std::array<double, 3> score{};
    for (const std::string& feature : features(pair)) {
      for (std::size_t label = 0; label < 3; ++label) {
        score[label] += std::log((counts[feature][label] + 1) / (rows + 2));
      }
    }
    const auto best = std::max_element(score.begin(), score.end()) - score.begin();
    right += static_cast<double>(best) == pair.target;
  }
  return right / static_cast<double>(splits.dev.size());
}

}  // namespace

TEST_CASE("nli: labels are balanced, rows distinct, splits apart") {
  const TextSplits nli = make_nli(1, 3000, 300);
  REQUIRE_EQ(nli.train.size(), 3000);
  REQUIRE_EQ(nli.dev.size(), 300);
  std::array<int, 3> labels{};
  std::set<std::pair<std::string, std::string>> pairs;
  std::set<std::string> hypotheses;
  for (const TextPair& pair : nli.train) {
    ++labels[static_cast<std::size_t>(pair.target)];
    pairs.insert({pair.sentence1, pair.sentence2});
    hypotheses.insert(pair.sentence2);
  }
  CHECK(labels == std::array<int, 3>{1000, 1000, 1000});
  CHECK_EQ(hypotheses.size(), 1000);
  CHECK_GE(pairs.size(), 2990);  // a premise has two labels only by chance, never one twice
  for (const TextPair& pair : nli.dev) CHECK_FALSE(hypotheses.contains(pair.sentence2));
}

TEST_CASE("nli: neither length nor one sentence alone gives the label away") {
  const TextSplits nli = make_nli(2, 9000, 1500);
  std::array<double, 3> premise_words{};
  std::array<double, 3> hypothesis_words{};
  for (const TextPair& pair : nli.train) {
    premise_words[static_cast<std::size_t>(pair.target)] += count_words(pair.sentence1) / 3000;
    hypothesis_words[static_cast<std::size_t>(pair.target)] += count_words(pair.sentence2) / 3000;
  }
  MESSAGE("premise words " << premise_words[0] << " " << premise_words[1] << " " << premise_words[2]
                           << ", hypothesis words " << hypothesis_words[0]);
  CHECK_EQ(hypothesis_words[0], doctest::Approx(hypothesis_words[1]));
  CHECK_EQ(hypothesis_words[0], doctest::Approx(hypothesis_words[2]));
  for (const std::size_t label : {1, 2}) {
    CHECK_LT(std::abs(premise_words[label] - premise_words[0]), 1.0);
  }
  const double from_hypothesis = guess_from(nli, of_hypothesis);
  const double from_premise = guess_from(nli, of_premise);
  const double from_both = guess_from(nli, of_difference);
  MESSAGE("accuracy from the hypothesis " << from_hypothesis << ", from the premise "
                                          << from_premise << ", from their difference "
                                          << from_both);
  CHECK_EQ(from_hypothesis, doctest::Approx(1.0 / 3));  // each one occurs with every label
  CHECK_LT(from_premise, 0.45);
  CHECK_GT(from_both, 0.6);  // the label can be learned from the pair
}

TEST_CASE("sts: scores fill the scale and paraphrases are not copies") {
  const TextSplits sts = make_sts(3, 2000, 200);
  std::array<int, 5> bins{};
  for (const TextPair& pair : sts.train) {
    CHECK_GE(pair.target, 0);
    CHECK_LE(pair.target, 5);
    CHECK_NE(pair.sentence1, pair.sentence2);
    ++bins[std::min<std::size_t>(4, static_cast<std::size_t>(pair.target))];
  }
  for (const int count : bins) CHECK_GE(count, 100);
}

TEST_CASE("digits: ten classes equally often, no two alike, ink where strokes are") {
  const Digits digits = make_digits(4, 0, 200);
  std::array<int, 10> counts{};
  std::set<std::vector<std::uint8_t>> distinct;
  for (std::size_t i = 0; i < digits.count; ++i) {
    ++counts[digits.labels[i]];
    const auto begin = digits.pixels.begin() + static_cast<std::ptrdiff_t>(i * 784);
    const std::vector<std::uint8_t> image(begin, begin + 784);
    const auto dark = std::count_if(image.begin(), image.end(), [](int ink) { return ink > 128; });
    CHECK_GE(dark, 15);
    CHECK_LE(dark, 350);
    distinct.insert(image);
  }
  CHECK_EQ(distinct.size(), 200);
  for (const int count : counts) CHECK_EQ(count, 20);
  CHECK(make_digits(4, 1, 200).pixels != digits.pixels);
}

TEST_CASE("digits: most are nearest to their own class's mean, not all") {
  const Digits train = make_digits(5, 0, 2000);
  const Digits test = make_digits(5, 1, 500);
  std::vector<double> means(10 * 784);  // (10, 28, 28)
  for (std::size_t i = 0; i < train.pixels.size(); ++i) {
    means[train.labels[i / 784] * 784u + i % 784] += train.pixels[i] / 200.0;
  }
  int right = 0;
  for (std::size_t i = 0; i < test.count; ++i) {
    std::array<double, 10> distance{};
    for (std::size_t j = 0; j < means.size(); ++j) {
      const double difference = test.pixels[i * 784 + j % 784] - means[j];
      distance[j / 784] += difference * difference;
    }
    const auto best = std::min_element(distance.begin(), distance.end()) - distance.begin();
    right += best == test.labels[i];
  }
  MESSAGE("nearest mean: " << right / 5.0 << " % of 500");
  CHECK_GT(right, 250);  // the classes can be learned
  CHECK_LT(right, 490);  // but not by a mean image alone
}

TEST_CASE("write_synthetic: files that the readers read, the same for the same seed") {
  const TemporaryFolder folder;
  for (const char* name : {"a", "b"}) write_synthetic(folder / name, 7, kSmall);
  write_synthetic(folder / "c", 8, kSmall);
  std::size_t files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder / "a")) {
    const std::string name = entry.path().filename().string();
    const std::string bytes = read_file(entry.path());
    CHECK_MESSAGE(bytes == read_file(folder / "b" / name), name);
    CHECK_MESSAGE(bytes != read_file(folder / "c" / name), name);
    ++files;
  }
  CHECK_EQ(files, 8);
  const TextDataset nli = read_dataset(folder / "a" / "nli-train.jsonl");
  CHECK_EQ(nli.size(), 30);
  CHECK_EQ(nli.num_labels(), 3);
  CHECK_EQ(read_dataset(folder / "a" / "nli-dev.jsonl").size(), 9);
  const TextDataset sts = read_dataset(folder / "a" / "sts-train.csv");
  CHECK_EQ(sts.size(), 20);
  CHECK(sts.target() == Target::score);
  const Digits digits = read_digits(folder / "a" / "digits-train-images-idx3-ubyte",
                                    folder / "a" / "digits-train-labels-idx1-ubyte");
  CHECK_EQ(digits.count, 40);
}

TEST_CASE("write_synthetic: a full disk leaves no file behind") {
  const TemporaryFolder folder;
  {
    const FullDisk disk(3000);  // enough for some of the files
    CHECK_THROWS_AS(write_synthetic(folder.path(), 1, kSmall), InputError);
  }
  CHECK_EQ(folder.entries(), 0);
  write_file(folder / "file", "");
  CHECK_THROWS_AS(write_synthetic(folder / "file", 1, kSmall), InputError);
  CHECK_THROWS_AS(make_nli(1, 2'000'000, 0), InputError);
}
