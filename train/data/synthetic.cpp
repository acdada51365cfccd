#include "ringlet/train/data/synthetic.h"
#include "ringlet/core/io/json.h"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <memory>
#include <unordered_set>
#include <utility>

#include "ringlet/core/base/error.h"
#include "ringlet/core/io/file.h"
#include "ringlet/train/data/permutation.h"
#include "ringlet/train/data/scenes.h"
#include "ringlet/train/data/strokes.h"

namespace ringlet::train {
namespace {

namespace fs = std::filesystem;

enum Stream : std::uint64_t { kNliStream = 1, kStsStream, kDigitStream, kDigitOrder };

constexpr std::array<const char*, 3> kLabelNames{"entailment", "neutral", "contradiction"};

// The grammar makes many millions of sentences; sizes beyond this would be repetitive.
constexpr std::size_t kMaxPairs = 1'000'000;

void check_size(std::size_t size) {
  if (size > kMaxPairs) {
    fail_input("synthetic data: expected at most ", kMaxPairs, " pairs, found ", size);
  }
}

/// A premise that is not the same text as the hypothesis.
std::string write_premise(const Scene& hypothesis, const std::string& text, NliLabel label,
                          std::size_t said, Draws& draws) {
  while (true) {
    std::string premise = describe(draw_premise(hypothesis, label, said, draws), draws);
    if (premise != text) return premise;
  }
}

std::string nli_lines(const std::vector<TextPair>& pairs) {
  std::string text;
  for (const TextPair& pair : pairs) {
    Json line;
    line["gold_label"] = kLabelNames[static_cast<std::size_t>(pair.target)];
    line["sentence1"] = pair.sentence1;
    line["sentence2"] = pair.sentence2;
    text += line.dump() + "\n";
  }
  return text;
}

/// No sentence of the grammar contains a quote.
std::string sts_lines(const std::vector<TextPair>& pairs) {
  std::string text;
  for (const TextPair& pair : pairs) {
    text += fmt::format("\"{}\",\"{}\",{:.1f}\n", pair.sentence1, pair.sentence2, pair.target);
  }
  return text;
}

using NamedTexts = std::vector<std::pair<std::string, std::string>>;

void add_digits(NamedTexts& files, const std::string& name, Digits digits) {
  const IdxArray images{{digits.count, digits.height, digits.width}, std::move(digits.pixels)};
  const IdxArray labels{{digits.count}, std::move(digits.labels)};
  files.emplace_back("digits-" + name + "-images-idx3-ubyte", idx_bytes(images));
  files.emplace_back("digits-" + name + "-labels-idx1-ubyte", idx_bytes(labels));
}

void write_all(const fs::path& folder, const NamedTexts& files) {
  std::vector<std::unique_ptr<AtomicFile>> open;
  for (const auto& [name, text] : files) {
    open.push_back(std::make_unique<AtomicFile>(folder / name));
    open.back()->write(text);
    open.back()->sync();
  }
  for (const auto& file : open) file->commit();
}

}  // namespace

TextSplits make_nli(std::uint64_t seed, std::size_t train, std::size_t dev) {
  check_size(train + dev);
  Draws draws(mix64(seed, kNliStream));
  std::unordered_set<std::string> seen;
  TextSplits splits;
  // A triple never lies in both splits: dev starts with a new hypothesis.
  for (const auto& [pairs, size] : {std::pair(&splits.train, train), {&splits.dev, dev}}) {
    while (pairs->size() < size) {
      const Scene hypothesis = draw_scene(1 + draws.index(2), draws);
      const std::string text = describe(hypothesis, draws);
      if (!seen.insert(text).second) continue;
      const std::size_t said = 2 + draws.index(2);
      for (const NliLabel label : {kEntailment, kNeutral, kContradiction}) {
        if (pairs->size() == size) break;
        pairs->push_back({write_premise(hypothesis, text, label, said, draws), text,
                          static_cast<double>(label)});
      }
    }
  }
  return splits;
}

TextSplits make_sts(std::uint64_t seed, std::size_t train, std::size_t dev) {
  check_size(train + dev);
  Draws draws(mix64(seed, kStsStream));
  std::unordered_set<std::string> seen;
  TextSplits splits;
  while (splits.dev.size() < dev || splits.train.size() < train) {
    const Scene a = draw_scene(1 + draws.index(3), draws);
    // A fifth of the pairs is unrelated; the rest differ by anything from nothing to everything.
    const Scene b = draws.chance(0.2) ? draw_scene(1 + draws.index(3), draws)
                                      : draw_variation(a, draws.uniform(), draws);
    TextPair pair{describe(a, draws), describe(b, draws), std::round(10 * sts_score(a, b)) / 10};
    if (pair.sentence1 == pair.sentence2) continue;
    if (!seen.insert(pair.sentence1 + pair.sentence2).second) continue;
    (splits.train.size() < train ? splits.train : splits.dev).push_back(std::move(pair));
  }
  return splits;
}

Digits make_digits(std::uint64_t seed, std::size_t split, std::size_t count) {
  Digits digits{count, kDigitSide, kDigitSide, {}, {}};
  const Permutation order(count, mix64(seed, kDigitOrder, split));
  for (std::size_t i = 0; i < count; ++i) {
    Draws draws(mix64(seed, kDigitStream, split, i));
    const int digit = static_cast<int>(order(i) % 10);
    const std::vector<std::uint8_t> drawn = draw_digit(digit, draws);
    digits.pixels.insert(digits.pixels.end(), drawn.begin(), drawn.end());
    digits.labels.push_back(static_cast<std::uint8_t>(digit));
  }
  return digits;
}

void write_synthetic(const fs::path& folder, std::uint64_t seed, const SyntheticSizes& sizes) {
  const TextSplits nli = make_nli(seed, sizes.nli_train, sizes.nli_dev);
  const TextSplits sts = make_sts(seed, sizes.sts_train, sizes.sts_dev);
  NamedTexts files{{"nli-train.jsonl", nli_lines(nli.train)},
                   {"nli-dev.jsonl", nli_lines(nli.dev)},
                   {"sts-train.csv", sts_lines(sts.train)},
                   {"sts-dev.csv", sts_lines(sts.dev)}};
  add_digits(files, "train", make_digits(seed, 0, sizes.digits_train));
  add_digits(files, "test", make_digits(seed, 1, sizes.digits_test));
  make_folders(folder);
  write_all(folder, files);
}

}  // namespace ringlet::train
