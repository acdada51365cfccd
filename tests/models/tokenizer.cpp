#include "ringlet/models/tokenizer/tokenizer.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "ringlet/core/base/error.h"
#include "ringlet/models/tokenizer/tokenizer_model.h"

using namespace ringlet;
using models::Encoding;
using models::Tokenizer;
using models::TokenizerOptions;

namespace {

using Ids = std::vector<std::int32_t>;

const std::vector<std::string> kBert = {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "play",
                                        "##ing", "cat",   "##s",   "un",    "##play", "."};

Tokenizer bert(TokenizerOptions options = {}) { return Tokenizer::from_pieces(kBert, options); }

Tokenizer mpnet() {
  const std::vector<std::string> pieces = {"<s>", "<pad>", "</s>", "<unk>", "[UNK]",
                                           "the", "cat",   "##s",  "<mask>"};
  return Tokenizer::from_pieces(pieces);
}

}  // namespace

TEST_CASE("a text becomes special tokens around the longest pieces of its words") {
  const Tokenizer tokenizer = bert();
  CHECK_EQ(tokenizer.encode("The cats playing.").ids, Ids{2, 5, 8, 9, 6, 7, 12, 3});
  CHECK_EQ(tokenizer.encode("unplaying").ids, Ids{2, 10, 11, 7, 3});
  CHECK_EQ(tokenizer.encode("").ids, Ids{2, 3});
  CHECK_EQ(tokenizer.encode(" \t\n").ids, Ids{2, 3});
}

TEST_CASE("a word that pieces cannot make up entirely is unknown as a whole") {
  CHECK_EQ(bert().encode("playdough").ids, Ids{2, 1, 3});
  CHECK_EQ(bert().encode("dog the").ids, Ids{2, 1, 5, 3});
}

TEST_CASE("a pair has two separators for MPNet, one and token types for BERT") {
  const Encoding one = bert().encode("the", "cat");
  CHECK_EQ(one.ids, Ids{2, 5, 3, 8, 3});
  CHECK_EQ(one.type_ids, Ids{0, 0, 0, 1, 1});
  const Encoding two = mpnet().encode("the", "cat");
  CHECK_EQ(two.ids, Ids{0, 5, 2, 2, 6, 2});
  CHECK_EQ(two.type_ids, Ids{0, 0, 0, 0, 0, 0});
}

TEST_CASE("special tokens are found in the text, exactly as they are written") {
  CHECK_EQ(bert().encode("the[MASK]cat").ids, Ids{2, 5, 4, 8, 3});
  CHECK_EQ(mpnet().encode("the <mask>").ids, Ids{0, 5, 8, 2});
  CHECK_EQ(mpnet().encode("<MASK>").ids, Ids{0, 4, 4, 4, 2});
  CHECK_EQ(mpnet().encode("<unk>").ids, Ids{0, 4, 4, 4, 2});  // the unknown token is [UNK]
}

TEST_CASE("the roles of special tokens") {
  CHECK_EQ(bert().special(), models::SpecialTokens{2, 3, 0, 1, 4});
  CHECK_EQ(mpnet().special(), models::SpecialTokens{0, 2, 1, 4, 8});
}

TEST_CASE("max_length cuts the longer text of a pair first") {
  Tokenizer tokenizer = bert();
  tokenizer.set_max_length(4);
  CHECK_EQ(tokenizer.encode("the the the the").ids, Ids{2, 5, 5, 3});
  tokenizer.set_max_length(8);
  CHECK_EQ(tokenizer.encode("cat", "the the the the the the").ids, Ids{2, 8, 3, 5, 5, 5, 5, 3});
  CHECK_EQ(tokenizer.encode("the the the the the", "cat").ids, Ids{2, 5, 5, 5, 5, 3, 8, 3});
  CHECK_EQ(tokenizer.encode("the the the the", "cat cat cat").ids, Ids{2, 5, 5, 5, 3, 8, 8, 3});
  CHECK_EQ(tokenizer.encode("the the the", "cat cat cat").ids, Ids{2, 5, 5, 3, 8, 8, 8, 3});
  tokenizer.set_max_length(2);
  CHECK_EQ(tokenizer.encode("the").ids, Ids{2, 3});
  CHECK_THROWS_WITH_AS(tokenizer.encode("the", "cat"),
                       "[Tokenizer] max_length 2 leaves no room for the 3 special tokens of a pair",
                       Error);
  CHECK_THROWS_WITH_AS(
      tokenizer.set_max_length(1),
      "[Tokenizer] expected max_length 0 (no limit) or at least 2 for the special tokens, got 1",
      Error);
}

TEST_CASE("with truncate_left a text keeps its end, and so does each text of a pair") {
  models::TokenizerModel model = bert().model();
  model.truncate_left = true;
  Tokenizer tokenizer(model);
  tokenizer.set_max_length(4);
  CHECK_EQ(tokenizer.encode("the play cat un").ids, Ids{2, 8, 10, 3});
  Ids ids;
  tokenizer.append("the play cat un", ids);
  CHECK_EQ(ids, Ids{2, 8, 10, 3});
  const std::vector<std::string> texts = {"the play cat un", "the"};
  CHECK_EQ(tokenizer.encode_batch(texts).ids, Ids{2, 8, 10, 3, 2, 5, 3});
  tokenizer.set_max_length(6);
  CHECK_EQ(tokenizer.encode("un", "the play cat un").ids, Ids{2, 10, 3, 8, 10, 3});
}

TEST_CASE("a batch is packed without padding") {
  const std::vector<std::string> texts = {"the cat", "", "play"};
  const models::PackedEncoding batch = bert().encode_batch(texts);
  CHECK_EQ(batch.ids, Ids{2, 5, 8, 3, 2, 3, 2, 6, 3});
  CHECK_EQ(batch.cu_seqlens, Ids{0, 4, 6, 9});
  const models::PackedEncoding none = bert().encode_batch(std::vector<std::string>{});
  CHECK_EQ(none.cu_seqlens, Ids{0});
  CHECK(none.ids.empty());
}

TEST_CASE("append is encode into a vector") {
  Ids ids = {7};
  bert().append("the", ids);
  CHECK_EQ(ids, Ids{7, 2, 5, 3});
}

TEST_CASE("ids decode to words") {
  const Tokenizer tokenizer = bert();
  const Ids ids = tokenizer.encode("The cats, playing.").ids;
  CHECK_EQ(tokenizer.decode(ids), "the cats playing.");  // the comma is unknown, thus special
  CHECK_EQ(tokenizer.decode(Ids{2, 5, 3}, false), "[CLS] the [SEP]");
  CHECK_EQ(tokenizer.decode(Ids{}), "");
  CHECK_THROWS_WITH_AS(tokenizer.decode(Ids{13}), "[Vocabulary] id 13 is outside 0..12", Error);
}

TEST_CASE("a vocabulary without the special tokens is refused by name") {
  const std::vector<std::string> none = {"the", "cat"};
  CHECK_THROWS_WITH_AS(
      Tokenizer::from_pieces(none),
      "vocabulary: expected the special token '[CLS]' in the vocabulary, it is not there",
      InputError);
  CHECK_THROWS_AS(Tokenizer::from_pieces(std::vector<std::string>{}), InputError);
}
