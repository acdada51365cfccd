#include "ringlet/models/tokenizer/trainer.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "ringlet/core/base/error.h"

using namespace ringlet;
using namespace ringlet::models;

namespace {

using Pieces = std::vector<std::string>;

/// The learned pieces without the special tokens in front.
Pieces learn(const Pieces& texts, TrainerOptions options) {
  const Pieces pieces = learn_vocabulary(texts, options);
  return {pieces.begin() + 5, pieces.end()};
}

/// The definition: counts all pairs again before every merge.
Pieces learn_plainly(const std::map<std::string, std::int64_t>& words, std::int64_t size) {
  Pieces pieces;
  const auto id_of = [&](const std::string& piece) {
    const auto found = std::find(pieces.begin(), pieces.end(), piece);
    if (found == pieces.end()) pieces.push_back(piece);
    return std::find(pieces.begin(), pieces.end(), piece) - pieces.begin();
  };
  std::set<char> letters;
  for (const auto& [word, count] : words) letters.insert(word.begin(), word.end());
  for (const char letter : letters) id_of({letter});
  std::vector<std::pair<std::vector<std::ptrdiff_t>, std::int64_t>> split;
  for (const auto& [word, count] : words) {
    std::vector<std::ptrdiff_t> ids = {id_of(word.substr(0, 1))};
    for (const char letter : word.substr(1)) ids.push_back(id_of(std::string("##") + letter));
    split.emplace_back(ids, count);
  }
  while (static_cast<std::int64_t>(pieces.size()) < size) {
    std::map<std::pair<std::ptrdiff_t, std::ptrdiff_t>, std::int64_t> counts;
    for (const auto& [ids, count] : split) {
      for (std::size_t k = 1; k < ids.size(); ++k) counts[{ids[k - 1], ids[k]}] += count;
    }
    const auto best = std::max_element(counts.begin(), counts.end(), [](auto& a, auto& b) {
      return a.second < b.second;  // the first, thus smallest, of equal ones
    });
    if (best == counts.end() || best->second < 2) break;
    const auto [first, second] = best->first;
    const std::string tail = pieces[static_cast<std::size_t>(second)].substr(2);
    const std::ptrdiff_t merged = id_of(pieces[static_cast<std::size_t>(first)] + tail);
    for (auto& [ids, count] : split) {
      for (std::size_t k = 0; k + 1 < ids.size(); ++k) {
        if (ids[k] != first || ids[k + 1] != second) continue;
        ids[k] = merged;
        ids.erase(ids.begin() + static_cast<std::ptrdiff_t>(k) + 1);
      }
    }
  }
  return pieces;
}

}  // namespace

TEST_CASE("the most frequent pairs become pieces") {
  const Pieces texts = {"ab ab ab abc", "bc"};
  CHECK_EQ(learn(texts, {.vocab_size = 100, .min_frequency = 2}),
           Pieces{"a", "b", "c", "##b", "##c", "ab"});  // "ab" four times, the rest once
  CHECK_EQ(learn(texts, {.vocab_size = 100, .min_frequency = 1}),
           Pieces{"a", "b", "c", "##b", "##c", "ab", "bc", "abc"});
}

TEST_CASE("learning stops at the size, never below the alphabet") {
  CHECK_EQ(learn({"aab aab ab"}, {.vocab_size = 10}), Pieces{"a", "b", "##a", "##b", "aa"});
  CHECK_EQ(learn({"aab aab ab"}, {.vocab_size = 6}), Pieces{"a", "b", "##a", "##b"});
}

TEST_CASE("pieces that repeat inside a word are counted as they merge") {
  CHECK_EQ(learn({"aaaaa aaaaa"}, {.vocab_size = 100}), Pieces{"a", "##a", "##aa", "aaa", "aaaaa"});
}

TEST_CASE("rare characters are left out of the alphabet") {
  CHECK_EQ(learn({"aa ab a\u00DF"}, {.vocab_size = 100, .limit_alphabet = 1}), Pieces{"a", "##a"});
}

TEST_CASE("special tokens of both families") {
  CHECK_EQ(learn_vocabulary(Pieces{}), Pieces{"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"});
  CHECK_EQ(learn_vocabulary(Pieces{"b"}, {.family = TokenizerFamily::kMpnet}),
           Pieces{"<s>", "<pad>", "</s>", "<unk>", "[UNK]", "b", "<mask>"});
  CHECK_THROWS_WITH_AS(learn_vocabulary(Pieces{}, {.vocab_size = 4}),
                       "vocab_size: expected at least 5 for the special tokens, got 4", InputError);
}

TEST_CASE("a learned tokenizer knows its own text") {
  const Pieces texts = {"The cat sat on the mat.", "A cat and a hat!"};
  for (const TokenizerFamily family : {TokenizerFamily::kBert, TokenizerFamily::kMpnet}) {
    const Tokenizer tokenizer = train_tokenizer(texts, {.family = family, .vocab_size = 60});
    for (const std::string& text : texts) {
      const auto ids = tokenizer.encode(text).ids;
      CHECK_EQ(std::count(ids.begin(), ids.end(), tokenizer.special().unk), 0);
    }
    CHECK_EQ(tokenizer.decode(tokenizer.encode(texts[0]).ids), "the cat sat on the mat.");
    CHECK_LE(tokenizer.vocab_size(), 60);
  }
}

TEST_CASE("counting anew before every merge gives the same pieces") {
  const Pieces words = {"low",    "lower",   "lowest", "newer", "newest",   "wider", "widest",
                        "banana", "bandana", "ananas", "aaaa",  "abababab", "nana",  "lowland"};
  for (std::size_t shift = 0; shift < words.size(); ++shift) {
    std::map<std::string, std::int64_t> counts;
    std::string text;
    for (std::size_t i = 0; i < words.size(); ++i) {
      const std::size_t count = (i * 5 + shift) % 7 + 1;
      counts[words[i]] += static_cast<std::int64_t>(count);
      for (std::size_t k = 0; k < count; ++k) text += words[i] + ' ';
    }
    for (const std::int64_t size : {30, 50, 80}) {
      CHECK_EQ(learn({text}, {.vocab_size = size}), learn_plainly(counts, size - 5));
    }
  }
}
