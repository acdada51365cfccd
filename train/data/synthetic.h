// The project's own data: English pairs whose labels follow from how they were made, pairs with a
// score, and drawn digits. A function of the seed, the same on every machine, made without network.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "ringlet/train/data/idx.h"

namespace ringlet::train {

struct SyntheticSizes {
  std::size_t nli_train = 9'000;
  std::size_t nli_dev = 900;
  std::size_t sts_train = 3'000;
  std::size_t sts_dev = 600;
  std::size_t digits_train = 6'000;
  std::size_t digits_test = 1'000;
};

struct TextPair {
  std::string sentence1;
  std::string sentence2;
  double target = 0;  // NLI: 0 entailment, 1 neutral, 2 contradiction; STS: 0 to 5
};

struct TextSplits {
  std::vector<TextPair> train;
  std::vector<TextPair> dev;
};

/// Each hypothesis comes three times, with a premise for each label, one after the other: labels
/// are balanced and the hypothesis alone tells nothing. Hypotheses are distinct, over both splits.
TextSplits make_nli(std::uint64_t seed, std::size_t train, std::size_t dev);
/// Pairs from unrelated to paraphrase, scored by what the scenes share; distinct over both splits.
TextSplits make_sts(std::uint64_t seed, std::size_t train, std::size_t dev);
/// Digits in random order, all ten equally frequent. `split` tells train (0) from test (1).
Digits make_digits(std::uint64_t seed, std::size_t split, std::size_t count);

/// Writes nli-{train,dev}.jsonl (sentence1, sentence2, gold_label), sts-{train,dev}.csv (as the STS
/// benchmark's CSV, no header) and digits-{train,test}-{images-idx3,labels-idx1}-ubyte.gz into
/// `folder`, which is made if it is missing. A full disk is InputError and leaves no file behind.
void write_synthetic(const std::filesystem::path& folder, std::uint64_t seed = 0,
                     const SyntheticSizes& sizes = {});

}  // namespace ringlet::train
