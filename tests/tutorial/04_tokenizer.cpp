// Lesson 4: a tokenizer by hand. Frequent neighbours become a piece; a cut takes the longest.
#include <doctest/doctest.h>

#include <iostream>

#include "ringlet.h"

using Pieces = std::vector<std::string>;

// The number of a piece; a new one gets the next number.
static int id_of(const std::string& piece, Pieces& all) {
  if (!std::ranges::count(all, piece)) all.push_back(piece);
  return static_cast<int>(std::ranges::find(all, piece) - all.begin());
}

static Pieces learn(const std::string& text, std::size_t size) {
  Pieces pieces{"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"};
  for (char c = 'a'; c <= 'z'; ++c)
    if (text.find(c) != text.npos) id_of({c}, pieces);
  std::vector<std::vector<int>> words(1);
  for (const char c : text)  // "dog" is "d", "##o", "##g" at first
    if (c == ' ')
      words.emplace_back();
    else
      words.back().push_back(id_of((words.back().empty() ? "" : "##") + std::string{c}, pieces));
  while (pieces.size() < size) {
    std::map<std::pair<int, int>, int> counts;  // of adjacent pieces
    for (const std::vector<int>& word : words)
      for (std::size_t i = 1; i < word.size(); ++i) ++counts[{word[i - 1], word[i]}];
    const auto best = std::ranges::max_element(counts, {}, [](auto& pair) { return pair.second; });
    const auto [a, b] = best->first;
    for (const int id : words[5]) std::cout << pieces[id] << " | ";  // "newest" so far
    std::cout << pieces[a] << " and " << pieces[b] << " occur " << best->second << " times\n";
    const int both = id_of(pieces[a] + pieces[b].substr(2), pieces);
    for (std::vector<int>& word : words)
      for (std::size_t i = 1; i < word.size(); ++i)
        if (word[i - 1] == a && word[i] == b) word[i - 1] = both, word.erase(word.begin() + i);
  }
  return pieces;
}

static std::vector<int> encode(std::string rest, Pieces pieces) {
  std::vector<int> ids{2};  // [CLS] begins a sentence, [SEP] ends it
  for (std::size_t length; rest != "##"; rest = "##" + rest.substr(length)) {
    for (length = rest.size(); !std::ranges::count(pieces, rest.substr(0, length)); --length)
      if (length == 0) return {2, 1, 3};  // no piece begins the rest: [UNK]
    ids.push_back(id_of(rest.substr(0, length), pieces));
  }
  return ids.push_back(3), ids;
}

TEST_CASE("04 tokenizer") {
  const std::string text = "low low low lower lower newest newest newest widest widest";
  const Pieces pieces = learn(text, 32);
  CHECK(pieces == ringlet::models::learn_vocabulary(Pieces{text}, {.vocab_size = 32}));
  for (const std::string word : {"lowest", "newer", "dog"}) {
    for (const int id : encode(word, pieces)) std::cout << pieces[id] << (id == 3 ? "\n" : " ");
    CHECK(ringlet::models::Tokenizer::from_pieces(pieces).encode(word).ids == encode(word, pieces));
  }
}
