// The project's own data: English pairs with labels known by construction, pairs with a score, and
// drawn digits. A function of the seed, the same on every machine, made without network.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "ringlet/train/data/digits.h"

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

/// Each hypothesis comes three times in sequence, with one premise for each label: labels are
/// balanced and the hypothesis alone reveals nothing. Hypotheses are distinct, over both splits.
TextSplits make_nli(std::uint64_t seed, std::size_t train, std::size_t dev);
/// Pairs from unrelated to paraphrase, scored by what the scenes share; distinct over both splits.
TextSplits make_sts(std::uint64_t seed, std::size_t train, std::size_t dev);
/// Digits in random order, all ten equally frequent. `split` is 0 for train, 1 for test.
Digits make_digits(std::uint64_t seed, std::size_t split, std::size_t count);

/// Writes into `folder`, which is created if it is missing: nli-{train,dev}.jsonl (sentence1,
/// sentence2, gold_label); sts-{train,dev}.csv (as the STS benchmark's CSV, no header);
/// digits-{train,test}-{images-idx3,labels-idx1}-ubyte. A full disk is InputError and leaves no
/// file behind.
void write_synthetic(const std::filesystem::path& folder, std::uint64_t seed = 0,
                     const SyntheticSizes& sizes = {});

}  // namespace ringlet::train
