// Exercises of lesson 4: a tokenizer by hand.
#include <map>

#include "ringlet.h"

using Pieces = std::vector<std::string>;

// 1. The characters of a word as pieces: "dog" is "d", "##o", "##g".
Pieces characters(const std::string& word) {
  Pieces pieces;
  // gap: the first character is a piece, each later one is a piece that begins with "##".
  for (const char c : word) pieces.push_back((pieces.empty() ? "" : "##") + std::string{c});
  // end: static_cast<void>(word);
  return pieces;
}

// 2. Joins each pair of adjacent pieces `a`, `b` of a word, from the left: "d", "##o" is "do".
Pieces joined(const Pieces& word, const std::string& a, const std::string& b) {
  Pieces out;
  // gap: if the last piece of `out` is a and the next one is b, it grows by b without its "##".
  for (const std::string& piece : word) {
    if (!out.empty() && out.back() == a && piece == b)
      out.back() += b.substr(2);
    else
      out.push_back(piece);
  }
  // end: static_cast<void>(word.size() + a.size() + b.size());
  return out;
}

// 3. The most frequent pair of adjacent pieces, as "a b". `counts` has how often each word occurs.
// Equal pairs: the first in alphabetical order; "" if no word has two pieces.
std::string most_frequent(const std::map<Pieces, int>& counts) {
  // gap: a std::map from the text of a pair to its count is in alphabetical order.
  std::map<std::string, int> pairs;
  for (const auto& [word, count] : counts)
    for (std::size_t i = 1; i < word.size(); ++i) pairs[word[i - 1] + " " + word[i]] += count;
  std::string best;
  for (const auto& [pair, count] : pairs)
    if (best.empty() || count > pairs.at(best)) best = pair;
  return best;
  // end: return {};
}

// ---- checks
#include "exercise.h"

EXERCISE(1, "characters as pieces") {
  expect("characters(\"dog\")", characters("dog"), {"d", "##o", "##g"},
         "all but the first continue a word");
  expect("characters(\"a\")", characters("a"), {"a"}, "the first has no \"##\"");
  expect("characters(\"\")", characters(""), {}, "no character, no piece");
}

EXERCISE(2, "joining a pair") {
  expect("d ##o ##g by d ##o", joined({"d", "##o", "##g"}, "d", "##o"), {"do", "##g"},
         "b loses its \"##\" behind a");
  expect("b ##a ##n ##a ##n by ##a ##n", joined({"b", "##a", "##n", "##a", "##n"}, "##a", "##n"),
         {"b", "##an", "##an"}, "each occurrence is joined");
  expect("b ##o ##o ##o by ##o ##o", joined({"b", "##o", "##o", "##o"}, "##o", "##o"),
         {"b", "##oo", "##o"}, "from the left; a joined piece is another piece");
  expect("##o g by ##o ##g", joined({"##o", "g"}, "##o", "##g"), {"##o", "g"},
         "both pieces must be those of the pair");
}

EXERCISE(3, "the most frequent pair") {
  expect("of low (5), lower (2)",
         most_frequent({{{"l", "##o", "##w"}, 5}, {{"l", "##o", "##w", "##e", "##r"}, 2}}),
         "##o ##w", "\"##o ##w\" and \"l ##o\" both occur 7 times: the first of the alphabet");
  expect("of ab (1), cd (3)", most_frequent({{{"a", "##b"}, 1}, {{"c", "##d"}, 3}}), "c ##d",
         "a pair counts as often as its word");
  expect("of bb (2), abab (1)",
         most_frequent({{{"b", "##b"}, 2}, {{"a", "##b", "##a", "##b", "##a", "##b"}, 1}}),
         "##a ##b", "\"##a ##b\" occurs 2 times in one word, and is the first of the alphabet");
  expect("of a (9)", most_frequent({{{"a"}, 9}}), "", "there is no pair");
}
