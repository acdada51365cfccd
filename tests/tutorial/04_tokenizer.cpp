// Lesson 4: a tokenizer by hand. Frequent neighbours become a piece; words are cut greedily.
#include <doctest/doctest.h>

#include <algorithm>
#include <iostream>
#include <map>
#include <set>

#include "ringlet.h"

namespace {

using Pieces = std::vector<std::string>;
long id_of(const std::string& piece, const Pieces& all) {
  return std::ranges::find(all, piece) - all.begin();
}

Pieces learn(const std::map<std::string, int>& counts, std::size_t size) {
  std::set<std::string> letters;
  for (const auto& [word, count] : counts)
    for (const char c : word) letters.insert({c});
  Pieces pieces{"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"};
  pieces.insert(pieces.end(), letters.begin(), letters.end());
  std::map<std::string, Pieces> words;  // "dog" is "d", "##o", "##g" at first
  for (const auto& [word, count] : counts)
    for (const char c : word) {
      const std::string piece = (words[word].empty() ? "" : "##") + std::string{c};
      words[word].push_back(piece);
      if (!std::ranges::count(pieces, piece)) pieces.push_back(piece);
    }
  while (pieces.size() < size) {
    std::map<std::pair<long, long>, int> pairs;  // the ids of adjacent pieces
    for (const auto& [word, cut] : words)
      for (std::size_t i = 1; i < cut.size(); ++i)
        pairs[{id_of(cut[i - 1], pieces), id_of(cut[i], pieces)}] += counts.at(word);
    const auto best = std::ranges::max_element(pairs, {}, [](auto& pair) { return pair.second; });
    const std::string a = pieces[best->first.first], b = pieces[best->first.second];
    pieces.push_back(a + b.substr(2));
    std::cout << a << " " << b << ", " << best->second << " times -> " << pieces.back() << "\n";
    for (auto& [word, cut] : words)
      for (std::size_t i = 1; i < cut.size(); ++i)
        if (cut[i - 1] == a && cut[i] == b) cut[i - 1] = pieces.back(), cut.erase(cut.begin() + i);
  }
  return pieces;
}

std::vector<int> encode(std::string rest, const Pieces& pieces) {
  std::vector<int> ids;
  while (rest != "##") {
    std::size_t length = rest.size();
    while (length && !std::ranges::count(pieces, rest.substr(0, length))) --length;
    if (length == 0) return {1};  // no piece begins the rest: [UNK]
    ids.push_back(static_cast<int>(id_of(rest.substr(0, length), pieces)));
    rest = "##" + rest.substr(length);
  }
  return ids;
}

}  // namespace

TEST_CASE("04 tokenizer") {
  const Pieces pieces = learn({{"low", 3}, {"lower", 2}, {"newest", 3}, {"widest", 2}}, 24);
  const Pieces texts{"low low low lower lower", "newest newest newest widest widest"};
  CHECK(pieces == ringlet::models::learn_vocabulary(texts, {.vocab_size = 24}));  // the library's
  const auto tokenizer = ringlet::models::Tokenizer::from_pieces(pieces);
  for (const std::string word : {"lowest", "newer", "dog"}) {
    std::vector<int> ids = encode(word, pieces);
    for (const int id : ids) std::cout << pieces[id] << (id == ids.back() ? "\n" : " ");
    ids.insert(ids.begin(), 2), ids.push_back(3);  // [CLS] before and [SEP] after a sentence
    CHECK(tokenizer.encode(word).ids == ids);
  }
}
