// The tokenizer's parts where they show something that whole texts do not (tokenizer_oracle.cpp):
// bytes that are not UTF-8, vocabularies, and pieces of odd vocabularies.
#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "ringlet/core/base/error.h"
#include "ringlet/models/tokenizer/normalizer.h"
#include "ringlet/models/tokenizer/piece_model.h"
#include "ringlet/models/tokenizer/tokenizer_model.h"
#include "ringlet/models/tokenizer/unicode.h"

using namespace ringlet;
using namespace ringlet::models;

namespace {

std::string normalize(std::string_view text, const BertNormalizer& normalizer = {}) {
  std::string out;
  normalizer.normalize(text, out);
  return out;
}

using Ids = std::vector<std::int32_t>;

Ids pieces(const std::vector<std::string>& vocabulary, std::string_view word,
           WordPieceOptions options = {}) {
  const auto size = static_cast<std::int32_t>(vocabulary.size());
  Ids ids;
  WordPiece(Vocabulary(vocabulary), size, std::move(options)).append(word, ids);
  return ids;
}

}  // namespace

TEST_CASE("valid and invalid UTF-8") {
  CHECK(unicode::is_valid("naïve 日本 😀"));
  CHECK_FALSE(unicode::is_valid("na\xEFve"));      // Latin-1
  CHECK_FALSE(unicode::is_valid("\xED\xA0\x80"));  // a surrogate
  CHECK_FALSE(unicode::is_valid("\xC0\xAF"));      // overlong
  CHECK_FALSE(unicode::is_valid("\xE2\x82"));      // cut
}

TEST_CASE("white space becomes plain, character by character") {
  CHECK_EQ(normalize("a\tb\r\nc\u00A0d\u3000e"), "a b  c d e");
}

TEST_CASE("bytes that are not UTF-8 are dropped like U+FFFD") {
  CHECK_EQ(normalize("a\xFF"
                     "b"),
           "ab");
  CHECK_EQ(normalize("a\xC0\x80"
                     "b"),
           "ab");  // overlong
  CHECK_EQ(normalize("a\xED\xA0\x80"
                     "b"),
           "ab");                         // a surrogate
  CHECK_EQ(normalize("a\xE4\xBD"), "a");  // cut short
  CHECK_EQ(normalize("\xE9", {.clean_text = false}), "\uFFFD");
}

TEST_CASE("pieces are the longest from left to right") {
  CHECK_EQ(pieces({"[UNK]", "a", "ab", "##b", "##c", "##bc"}, "abc"), Ids{2, 4});
  CHECK_EQ(pieces({"[UNK]", "a", "##b"}, "abb"), Ids{1, 2, 2});
  CHECK_EQ(pieces({"[UNK]", "ab", "##d", "a", "##bd"}, "abe"), Ids{0});  // no way back
  CHECK_EQ(pieces({"[UNK]", "##a"}, "a"), Ids{0});
  CHECK_EQ(pieces({"[UNK]", "\u00E9", "##\u00E8"}, "\u00E9\u00E8"), Ids{1, 2});
  CHECK_EQ(pieces({"?", "a", "@@b"}, "ab", {"?", "@@", 100}), Ids{1, 2});
}

TEST_CASE("a word of too many characters is unknown, whatever its bytes") {
  const std::vector<std::string> vocabulary = {"[UNK]", "\u00E9", "##\u00E9"};
  const WordPieceOptions options{.max_input_chars_per_word = 3};
  CHECK_EQ(pieces(vocabulary, "\u00E9\u00E9\u00E9", options), Ids{1, 2, 2});
  CHECK_EQ(pieces(vocabulary, "\u00E9\u00E9\u00E9\u00E9", options), Ids{0});
}

TEST_CASE("wordpiece refuses what it cannot work with") {
  CHECK_THROWS_WITH_AS(
      pieces({"a"}, "a"),
      "vocabulary: expected the unknown token '[UNK]' in the vocabulary, it is not there",
      InputError);
  CHECK_THROWS_AS(pieces({"[UNK]"}, "a", {.max_input_chars_per_word = 0}), InputError);
}

TEST_CASE("a vocabulary answers both ways") {
  const Vocabulary vocabulary(std::vector<std::string>{"a", "##b", "", "\u4F60"});
  CHECK_EQ(vocabulary.size(), 4);
  CHECK_EQ(vocabulary.find("##b"), 1);
  CHECK_EQ(vocabulary.find("##", "b"), 1);
  CHECK_EQ(vocabulary.find("\u4F60"), 3);
  CHECK_EQ(vocabulary.find(""), 2);
  CHECK_EQ(vocabulary.find("b"), Vocabulary::kMissing);
  CHECK_EQ(vocabulary.piece(3), "\u4F60");
  CHECK_THROWS_WITH_AS(vocabulary.piece(4), "[Vocabulary] id 4 is outside 0..3", Error);
  CHECK_THROWS_AS(vocabulary.piece(-1), Error);
  CHECK_EQ(Vocabulary().find("a"), Vocabulary::kMissing);
}

TEST_CASE("a vocabulary's pieces are distinct and UTF-8") {
  CHECK_THROWS_WITH_AS(Vocabulary(std::vector<std::string>{"a", "b", "a"}),
                       "vocabulary: expected distinct pieces, 2 and 0 are both 'a'", InputError);
  CHECK_THROWS_WITH_AS(Vocabulary(std::vector<std::string>{"a", "\xFF"}),
                       "vocabulary: expected UTF-8 text, piece 1 is not", InputError);
}

TEST_CASE("added tokens are found leftmost, then longest, alone if asked for") {
  std::vector<AddedToken> tokens(3);
  tokens[0] = {.id = 1, .content = "ab"};
  tokens[1] = {.id = 2, .content = "abc"};
  tokens[2] = {.id = 3, .content = "foo", .single_word = true};
  const AddedTokenMatcher matcher(tokens, false, {});
  AddedTokenMatcher::Match match;
  REQUIRE(matcher.next("xabcab", match));
  CHECK_EQ(match.id, 2);
  CHECK_EQ(match.begin, 1);
  CHECK_EQ(match.end, 4);
  REQUIRE(matcher.next("xabcab", match));
  CHECK_EQ(match.id, 1);
  CHECK_FALSE(matcher.next("xabcab", match));
  match = {};
  CHECK_FALSE(matcher.next("xfoo foo\u0301 foo_", match));
  REQUIRE(matcher.next("\u00E9foo-foo.", match));
  CHECK_EQ(match.begin, 6);
}
