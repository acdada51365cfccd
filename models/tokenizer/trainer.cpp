#include "ringlet/models/tokenizer/trainer.h"

#include <algorithm>
#include <map>
#include <queue>
#include <unordered_map>
#include <utility>

#include "ringlet/core/base/error.h"
#include "ringlet/models/tokenizer/pre_tokenizer.h"
#include "ringlet/models/tokenizer/unicode.h"

namespace ringlet::models {
namespace {

constexpr std::string_view kPrefix = "##";

using Pair = std::pair<std::int32_t, std::int32_t>;

struct PairHash {
  std::size_t operator()(const Pair& pair) const {
    const auto first = static_cast<std::uint32_t>(pair.first);
    const auto second = static_cast<std::uint32_t>(pair.second);
    return (std::uint64_t{first} << 32 | second) * 0x9E3779B97F4A7C15u;
  }
};

/// A word of the text as pieces, and its frequency.
struct Word {
  std::vector<std::int32_t> pieces;
  std::int64_t count;
};

struct PairStatistics {
  std::int64_t count = 0;
  /// Words that contained the pair when it was counted, in order; some may not contain it any more.
  std::vector<std::int32_t> words;
};

/// A pair with its count at the time of queueing.
struct MergeCandidate {
  std::int64_t count;
  Pair pair;
  bool operator<(const MergeCandidate& other) const {
    return count != other.count ? count < other.count : pair > other.pair;
  }
};

std::map<std::string, std::int64_t> count_words(std::span<const std::string> texts,
                                                const BertNormalizer& normalizer) {
  std::map<std::string, std::int64_t> counts;  // sorted: the result must not depend on a hash
  std::string normalized;
  for (const std::string& text : texts) {
    normalized.clear();
    normalizer.normalize(text, normalized);
    BertSplit().for_words(normalized, true,
                          [&](std::string_view word) { ++counts[std::string(word)]; });
  }
  return counts;
}

std::vector<std::string> characters(std::string_view word) {
  std::vector<std::string> found;
  for (std::size_t position = 0; position < word.size();) {
    const std::size_t start = position;
    unicode::next(word, position);
    found.emplace_back(word.substr(start, position - start));
  }
  return found;
}

/// The most frequent characters, in the order of their code points.
std::vector<std::string> alphabet(const std::map<std::string, std::int64_t>& words,
                                  std::int64_t limit) {
  std::map<std::string, std::int64_t> counts;
  for (const auto& [word, count] : words) {
    for (const std::string& c : characters(word)) counts[c] += count;
  }
  std::vector<std::pair<std::string, std::int64_t>> kept(counts.begin(), counts.end());
  std::stable_sort(kept.begin(), kept.end(),
                   [](const auto& a, const auto& b) { return a.second > b.second; });
  kept.resize(std::min(kept.size(), static_cast<std::size_t>(std::max<std::int64_t>(limit, 0))));
  std::vector<std::string> letters;
  for (auto& [letter, count] : kept) letters.push_back(std::move(letter));
  std::sort(letters.begin(), letters.end());  // the order of UTF-8 bytes is that of code points
  return letters;
}

class Merger {
 public:
  Merger(std::vector<std::string> special, const std::map<std::string, std::int64_t>& words,
         const TrainerOptions& options) {
    for (std::string& piece : special) add(std::move(piece));
    for (std::string& letter : alphabet(words, options.limit_alphabet)) add(std::move(letter));
    for (const auto& [word, count] : words) split(word, count);
    for (std::size_t i = 0; i < words_.size(); ++i) {
      const std::vector<std::int32_t>& pieces = words_[i].pieces;
      for (std::size_t k = 1; k < pieces.size(); ++k) {
        change({pieces[k - 1], pieces[k]}, words_[i].count, i);
      }
    }
    for (const auto& [pair, statistics] : pairs_) queue_.push({statistics.count, pair});
  }

  void run(std::int64_t size, std::int64_t min_frequency) {
    while (static_cast<std::int64_t>(pieces_.size()) < size && !queue_.empty()) {
      MergeCandidate best = queue_.top();
      queue_.pop();
      const std::int64_t count = pairs_.at(best.pair).count;
      if (count != best.count) {  // other merges have taken some
        if (count > 0) queue_.push({count, best.pair});
        continue;
      }
      if (count < std::max<std::int64_t>(min_frequency, 1)) return;
      merge(best.pair);
    }
  }

  std::vector<std::string> take() { return std::move(pieces_); }

 private:
  std::int32_t add(std::string piece) {
    const auto [entry, added] = ids_.emplace(piece, static_cast<std::int32_t>(pieces_.size()));
    if (added) pieces_.push_back(std::move(piece));
    return entry->second;
  }

  /// Splits a word into single characters; those outside the alphabet are skipped.
  void split(const std::string& text, std::int64_t count) {
    Word word{{}, count};
    bool first = true;
    for (const std::string& letter : characters(text)) {
      if (ids_.contains(letter)) {
        word.pieces.push_back(first ? ids_.at(letter) : add(std::string(kPrefix) + letter));
      }
      first = false;
    }
    words_.push_back(std::move(word));
  }

  void change(const Pair& pair, std::int64_t by, std::size_t word) {
    PairStatistics& statistics = pairs_[pair];
    statistics.count += by;
    const auto index = static_cast<std::int32_t>(word);
    if (by > 0 && (statistics.words.empty() || statistics.words.back() != index)) {
      statistics.words.push_back(index);
    }
  }

  void merge(const Pair& pair) {
    const std::string& tail = pieces_[static_cast<std::size_t>(pair.second)];
    const bool continues = tail.starts_with(kPrefix);
    const std::int32_t id = add(pieces_[static_cast<std::size_t>(pair.first)] +
                                tail.substr(continues ? kPrefix.size() : 0));
    const std::vector<std::int32_t> words = std::move(pairs_.at(pair).words);
    std::vector<Pair> grown;
    for (const std::int32_t word : words) {
      replace(pair, id, static_cast<std::size_t>(word), grown);
    }
    std::sort(grown.begin(), grown.end());
    grown.erase(std::unique(grown.begin(), grown.end()), grown.end());
    for (const Pair& next : grown) {
      if (pairs_.at(next).count > 0) queue_.push({pairs_.at(next).count, next});
    }
  }

  /// Replaces the pair in one word and moves its neighbours' counts to the new pairs.
  void replace(const Pair& pair, std::int32_t id, std::size_t word, std::vector<Pair>& grown) {
    std::vector<std::int32_t>& pieces = words_[word].pieces;
    const std::int64_t count = words_[word].count;
    for (std::size_t k = 0; k + 1 < pieces.size(); ++k) {
      if (pieces[k] != pair.first || pieces[k + 1] != pair.second) continue;
      change(pair, -count, word);
      if (k > 0) {
        change({pieces[k - 1], pair.first}, -count, word);
        change({pieces[k - 1], id}, count, word);
        grown.emplace_back(pieces[k - 1], id);
      }
      if (k + 2 < pieces.size()) {
        change({pair.second, pieces[k + 2]}, -count, word);
        change({id, pieces[k + 2]}, count, word);
        grown.emplace_back(id, pieces[k + 2]);
      }
      pieces[k] = id;
      pieces.erase(pieces.begin() + static_cast<std::ptrdiff_t>(k) + 1);
    }
  }

  std::vector<std::string> pieces_;
  std::unordered_map<std::string, std::int32_t> ids_;
  std::vector<Word> words_;
  std::unordered_map<Pair, PairStatistics, PairHash> pairs_;
  std::priority_queue<MergeCandidate> queue_;
};

struct SpecialPieces {
  std::vector<std::string> head, tail;
};

SpecialPieces special_pieces(TokenizerFamily family) {
  if (family == TokenizerFamily::kMpnet) {
    return {{"<s>", "<pad>", "</s>", "<unk>", "[UNK]"}, {"<mask>"}};
  }
  return {{"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"}, {}};
}

}  // namespace

std::vector<std::string> learn_vocabulary(std::span<const std::string> texts,
                                          const TrainerOptions& options) {
  SpecialPieces special = special_pieces(options.family);
  const auto fewest = static_cast<std::int64_t>(special.head.size() + special.tail.size());
  if (options.vocab_size < fewest) {
    fail_input("vocab_size: expected at least ", fewest, " for the special tokens, got ",
               options.vocab_size);
  }
  const auto room = options.vocab_size - static_cast<std::int64_t>(special.tail.size());
  Merger merger(std::move(special.head), count_words(texts, options.normalizer), options);
  merger.run(room, options.min_frequency);
  std::vector<std::string> pieces = merger.take();
  pieces.insert(pieces.end(), special.tail.begin(), special.tail.end());
  return pieces;
}

Tokenizer train_tokenizer(std::span<const std::string> texts, const TrainerOptions& options) {
  const TokenizerOptions tokenizer{
      .family = options.family, .normalizer = options.normalizer, .max_length = options.max_length};
  return Tokenizer::from_pieces(learn_vocabulary(texts, options), tokenizer);
}

}  // namespace ringlet::models
