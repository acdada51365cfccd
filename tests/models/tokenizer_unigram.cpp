// The ids of Unigram tokenizers, as XLM-R has, are those of Hugging Face's tokenizers. Real
// sentences, pages of each script and every code point: scripts/oracles/unigram.py --compare.
#include "tokenizer_cases.h"

#include "ringlet/core/io/json.h"

using namespace ringlet;
using models::Tokenizer;

namespace {

constexpr const char* kUnigramNames[] = {"tiny-xlmr", "tiny-first", "tiny-never"};

std::filesystem::path unigram_file(const std::string& name) {
  return models::tokenizer_file(name + ".json");
}

void check_unigram(const Tokenizer& tokenizer, const std::string& name) {
  models::check_cases("unigram.jsonl", tokenizer, name);
}

std::string unigram_complaint(const char* pointer, const Json& value) {
  return models::complaint_about("tiny-xlmr.json", pointer, value);
}

}  // namespace

TEST_CASE("Unigram: XLM-R's words, marks at the text's beginning only, and none") {
  for (const std::string name : kUnigramNames)
    check_unigram(Tokenizer::from_file(unigram_file(name)), name);
}

TEST_CASE("Unigram: the same after saving and loading") {
  for (const std::string name : kUnigramNames) {
    const TemporaryFolder folder;
    Tokenizer::from_file(unigram_file(name)).save(folder.path());
    CHECK_FALSE(std::filesystem::exists(folder / "vocab.txt"));
    check_unigram(Tokenizer::from_pretrained(folder.path()), name);
  }
}

TEST_CASE("XLMRobertaTokenizer takes pieces and Precompiled from the file, the rest is its own") {
  const TemporaryFolder folder;
  Json file = Json::parse(read_file(unigram_file("tiny-first")));
  file["post_processor"] = nullptr;
  write_file(folder / "tokenizer.json", file.dump());
  for (const char* named : {"XLMRobertaTokenizer", "XLMRobertaTokenizerFast"}) {
    write_file(folder / "tokenizer_config.json", Json{{"tokenizer_class", named}}.dump());
    check_unigram(Tokenizer::from_pretrained(folder.path()), "tiny-xlmr");
  }
  std::filesystem::remove(folder / "tokenizer_config.json");
  write_file(folder / "config.json", R"({"model_type": "xlm-roberta"})");
  check_unigram(Tokenizer::from_pretrained(folder.path()), "tiny-xlmr");
  file["model"]["unk_id"] = 1;
  write_file(folder / "tokenizer.json", file.dump());
  CHECK_THROWS_WITH_AS(Tokenizer::from_pretrained(folder.path()),
                       ((folder / "tokenizer.json").string() +
                        ": model: expected Unigram with unk_id 3, as XLMRobertaTokenizer has")
                           .c_str(),
                       InputError);
}

TEST_CASE("a Unigram file that is wrong is named with the place in it") {
  CHECK_EQ(unigram_complaint("/model/unk_id", nullptr),
           "model.unk_id: expected an integer from 0 to " +
               std::to_string(
                   Json::parse(read_file(unigram_file("tiny-xlmr")))["model"]["vocab"].size() - 1) +
               ", got null");
  CHECK_EQ(unigram_complaint("/model/byte_fallback", true),
           "model.byte_fallback: expected false, got true");
  CHECK_EQ(unigram_complaint("/model/vocab/4", {"a", "b"}),
           "model.vocab[4]: expected a piece and its score, got [\"a\",\"b\"]");
  CHECK_EQ(unigram_complaint("/pre_tokenizer/pretokenizers/1/prepend_scheme", "some"),
           "pre_tokenizer.pretokenizers[1].prepend_scheme: expected always, first or never, as "
           "add_prefix_space says, got \"some\"");
  CHECK_EQ(unigram_complaint("/normalizer/precompiled_charsmap", "AAA"),
           "normalizer.precompiled_charsmap: expected base64");
  CHECK_EQ(unigram_complaint("/normalizer/precompiled_charsmap", "CAAAAAAA"),
           "normalizer.precompiled_charsmap: expected the length of a trie and the trie, in 6 "
           "bytes");
  CHECK_EQ(unigram_complaint("/decoder/type", "WordPiece"),
           "decoder.type: expected Metaspace, got \"WordPiece\"");
  CHECK(unigram_complaint("/decoder/replacement", "x")
            .starts_with("decoder: expected the pre-tokenizer's replacement and prepend_scheme"));
  CHECK_EQ(unigram_complaint("/pre_tokenizer", {{"type", "BertPreTokenizer"}}),
           "pre_tokenizer.type: expected Metaspace or ByteLevel for such a model, got "
           "\"BertPreTokenizer\"");
  const Json inner{{"type", "Sequence"}, {"normalizers", Json::array()}};
  CHECK(unigram_complaint("/normalizer",
                          {{"type", "Sequence"}, {"normalizers", Json::array({inner})}})
            .starts_with("normalizer.normalizers[0].type: expected BertNormalizer"));
}

TEST_CASE("a trie that points outside itself replaces nothing") {
  Json file = Json::parse(read_file(unigram_file("tiny-xlmr")));
  file["normalizer"]["precompiled_charsmap"] = "BAAAAP////8A";  // one unit, all bits
  const TemporaryFolder folder;
  write_file(folder / "tokenizer.json", file.dump());
  const Tokenizer tokenizer = Tokenizer::from_file(folder / "tokenizer.json");
  CHECK_EQ(tokenizer.encode("the \uFF21").ids.size(), 5);
}

TEST_CASE("bytes that are not UTF-8 count as U+FFFD") {
  const Tokenizer tokenizer = Tokenizer::from_file(unigram_file("tiny-xlmr"));
  CHECK_EQ(tokenizer.encode("a\xFF z\xE2\x82").ids, tokenizer.encode("a\uFFFD z\uFFFD\uFFFD").ids);
}
