// Files of a tokenizer, good and bad.
#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "ringlet/core/base/error.h"
#include "ringlet/core/io/file.h"
#include "ringlet/core/io/json.h"
#include "ringlet/models/tokenizer/tokenizer.h"
#include "ringlet/tests/files.h"
#include "ringlet/tests/json_path.h"

using namespace ringlet;
using models::Tokenizer;

namespace {

using Ids = std::vector<std::int32_t>;

const std::string kVocab = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nthe\n\u00E9\nE\n";

Json good_file() {
  return Json::parse(R"({
    "version": "1.0", "truncation": null, "padding": null,
    "added_tokens": [{"id": 0, "content": "[UNK]", "special": true, "normalized": false}],
    "normalizer": {"type": "BertNormalizer", "clean_text": true, "handle_chinese_chars": true,
                   "strip_accents": null, "lowercase": true},
    "pre_tokenizer": {"type": "BertPreTokenizer"},
    "post_processor": {"type": "BertProcessing", "sep": ["b", 2], "cls": ["a", 1]},
    "decoder": {"type": "WordPiece", "prefix": "##", "cleanup": true},
    "model": {"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##",
              "max_input_chars_per_word": 100, "vocab": {"[UNK]": 0, "a": 1, "b": 2}}})");
}

/// Loads `text` as tokenizer.json and returns the error without the path.
std::string complaint(const std::string& text) {
  const TemporaryFolder folder;
  const std::string path = (folder / "tokenizer.json").string();
  write_file(path, text);
  try {
    Tokenizer::from_file(path);
  } catch (const InputError& error) {
    const std::string message = error.what();
    CHECK(message.starts_with(path + ": "));
    CHECK_EQ(message.find('\n'), std::string::npos);
    return message.substr(std::min(message.size(), path.size() + 2));
  }
  return "none";
}

/// The same for a good file with one value changed; null removes it.
std::string complaint(const char* pointer, const Json& value) {
  Json file = good_file();
  value_at(file, pointer) = value;
  return complaint(file.dump());
}

std::string complaint_without(const char* parent, const char* key) {
  Json file = good_file();
  value_at(file, parent).erase(key);
  return complaint(file.dump());
}

}  // namespace

TEST_CASE("a small tokenizer.json") {
  CHECK_EQ(complaint(good_file().dump()), "none");
  const TemporaryFolder folder;
  write_file(folder / "tokenizer.json", good_file().dump());
  const Tokenizer tokenizer = Tokenizer::from_pretrained(folder.path());
  CHECK_EQ(tokenizer.encode("A b c").ids, Ids{1, 1, 2, 0, 2});
  CHECK_EQ(tokenizer.special(), models::SpecialTokens{1, 2, -1, 0, -1});
  CHECK_EQ(tokenizer.max_length(), 0);
}

TEST_CASE("text that is not JSON, or not of the expected kind, is named") {
  CHECK(complaint("").starts_with("expected JSON: parse error at line 1, column 1"));
  CHECK(complaint("{\"a\": 1,\n oops}").starts_with("expected JSON: parse error at line 2"));
  const std::string huge = complaint("{\"a\": 1" + std::string(400, '0') + "}");
  CHECK(huge.starts_with("expected JSON: number overflow parsing '1000"));
  CHECK_LT(huge.size(), 250);
  CHECK_EQ(complaint("[1]"), "expected an object, got [1]");
  CHECK_EQ(complaint("{}"), "expected the key 'normalizer'");
  CHECK_EQ(complaint("/normalizer", 1), "normalizer: expected an object, got 1");
  CHECK_EQ(
      complaint("/normalizer/type", "NFC"),
      "normalizer.type: expected BertNormalizer, or Precompiled, Strip and Replace, alone or in "
      "one Sequence, got \"NFC\"");
  CHECK_EQ(complaint("/normalizer/lowercase", 1),
           "normalizer.lowercase: expected true or false, got 1");
  CHECK_EQ(complaint("/pre_tokenizer/type", "Whitespace"),
           "pre_tokenizer.type: expected BertPreTokenizer, Metaspace, ByteLevel or Sequence, got "
           "\"Whitespace\"");
  CHECK_EQ(complaint("/model/type", "WordLevel"),
           "model.type: expected WordPiece, Unigram or BPE, got \"WordLevel\"");
  CHECK_EQ(complaint("/decoder/type", "ByteLevel"),
           "decoder.type: expected WordPiece, got \"ByteLevel\"");
  CHECK_EQ(complaint_without("/model", "unk_token"), "model: expected the key 'unk_token'");
  CHECK_EQ(complaint("/model/max_input_chars_per_word", -1),
           "model.max_input_chars_per_word: expected an integer from 1 to 2147483647, got -1");
}

TEST_CASE("a vocabulary has every id from 0 once") {
  CHECK_EQ(complaint("/model/vocab", Json::object()), "model.vocab: expected word pieces, got {}");
  CHECK_EQ(complaint("/model/vocab", Json::array()), "model.vocab: expected an object, got []");
  CHECK_EQ(complaint("/model/vocab/b", 3),
           "model.vocab.b: expected an id from 0 to 2 (3 pieces, no id left out), got 3");
  CHECK_EQ(complaint("/model/vocab/b", 18446744073709551615u),
           "model.vocab.b: expected an id from 0 to 2 (3 pieces, no id left out), got "
           "18446744073709551615");
  CHECK(complaint("/model/vocab/b", -1).ends_with("got -1"));
  CHECK(complaint("/model/vocab/b", 1.5).ends_with("got 1.5"));
  CHECK(complaint("/model/vocab/b", "2").ends_with("got \"2\""));
  CHECK_EQ(complaint("/model/vocab/b", 1),
           "model.vocab: expected each id once, 1 belongs to both 'a' and 'b'");
  CHECK_EQ(complaint("/model/unk_token", "<unk>"),
           "expected the unknown token '<unk>' in the vocabulary, it is not there");
}

TEST_CASE("added tokens agree with the vocabulary or continue it") {
  const auto token = [](std::int64_t id, const char* content) {
    return Json::array({{{"id", id}, {"content", content}}});
  };
  CHECK_EQ(complaint("/added_tokens", token(3, "c")), "none");
  CHECK_EQ(complaint("/added_tokens", token(4, "c")),
           "added_tokens: expected id 3 for 'c', the next one free, got 4");
  CHECK_EQ(complaint("/added_tokens", token(1, "c")),
           "added_tokens: expected 'a', the piece with id 1, got 'c'");
  CHECK(complaint("/added_tokens", token(3, "a")).find("3 and 1 are both 'a'") !=
        std::string::npos);
  CHECK_EQ(complaint("/added_tokens", token(3, "")),
           "added_tokens[0].content: expected text that is not empty, got \"\"");
  CHECK(complaint("/added_tokens", token(-1, "c")).starts_with("added_tokens[0].id: expected an "));
  CHECK_EQ(
      complaint("/added_tokens", {{{"id", 1}, {"content", "a"}}, {{"id", 1}, {"content", "a"}}}),
      "added_tokens: expected each id once, got 1 twice");
}

TEST_CASE("templates name known sequences and ids in range") {
  CHECK_EQ(complaint("/post_processor", nullptr), "none");
  CHECK_EQ(complaint("/post_processor/type", "ByteLevel"),
           "post_processor.type: expected TemplateProcessing, BertProcessing or "
           "RobertaProcessing, got \"ByteLevel\"");
  CHECK_EQ(complaint("/post_processor/cls", {"a", 3}),
           "post_processor.cls[1]: expected an integer from 0 to 2, got 3");
  CHECK_EQ(complaint("/post_processor/sep", 7), "post_processor.sep: expected a list, got 7");
  const auto with_single = [](const Json& single) {
    return Json{{"type", "TemplateProcessing"},
                {"single", single},
                {"pair", Json::array()},
                {"special_tokens", Json::object()}};
  };
  CHECK_EQ(complaint("/post_processor", with_single(Json::array())),
           "post_processor.single: expected the sequence A once, got []");
  CHECK_EQ(complaint("/post_processor",
                     with_single({{{"SpecialToken", {{"id", "[CLS]"}, {"type_id", 0}}}}})),
           "post_processor.special_tokens: expected the key '[CLS]'");
  CHECK_EQ(
      complaint("/post_processor", with_single({{{"Sequence", {{"id", "C"}, {"type_id", 0}}}}})),
      "post_processor.single[0].Sequence.id: expected A or B, got \"C\"");
}

TEST_CASE("truncation") {
  const auto truncation = [](std::int64_t length, const char* strategy, const char* direction) {
    return Json{{"max_length", length}, {"strategy", strategy}, {"direction", direction}};
  };
  CHECK_EQ(complaint("/truncation", truncation(2, "LongestFirst", "Right")), "none");
  CHECK_EQ(complaint("/truncation", truncation(1, "LongestFirst", "Right")),
           "truncation.max_length: expected at least the 2 special tokens, got 1");
  CHECK_EQ(complaint("/truncation", truncation(8, "OnlyFirst", "Right")),
           "truncation.strategy: expected LongestFirst, got \"OnlyFirst\"");
  CHECK_EQ(complaint("/truncation", truncation(8, "LongestFirst", "Left")), "none");
  CHECK_EQ(complaint("/truncation", truncation(8, "LongestFirst", "Up")),
           "truncation.direction: expected Left or Right, got \"Up\"");
  CHECK_EQ(complaint("/padding", {{"direction", "Left"}, {"pad_id", 0}}),
           "padding.direction: expected Right, got \"Left\"");
}

TEST_CASE("a folder with vocab.txt alone") {
  const TemporaryFolder folder;
  CHECK_THROWS_WITH_AS(
      Tokenizer::from_pretrained(folder.path()),
      (folder.path().string() +
       ": expected tokenizer.json, vocab.txt, or vocab.json and merges.txt; none is there")
          .c_str(),
      InputError);
  write_file(folder / "vocab.txt", kVocab);
  const Tokenizer tokenizer = Tokenizer::from_pretrained(folder.path());
  CHECK_EQ(tokenizer.vocab_size(), 8);
  CHECK_EQ(tokenizer.max_length(), 0);
  CHECK_EQ(tokenizer.encode("THE \u00E9").ids, Ids{2, 5, 1, 3});  // "e" is not a piece
}

TEST_CASE("tokenizer_config.json has the last word") {
  const TemporaryFolder folder;
  write_file(folder / "vocab.txt", kVocab);
  const auto load = [&](const char* config) {
    write_file(folder / "tokenizer_config.json", config);
    return Tokenizer::from_pretrained(folder.path());
  };
  CHECK_EQ(load(R"({"do_lower_case": false})").encode("the E \u00E9").ids, Ids{2, 5, 7, 6, 3});
  CHECK_EQ(load(R"({"strip_accents": false})").encode("\u00C9").ids, Ids{2, 6, 3});
  CHECK_EQ(load(R"({"model_max_length": 3})").encode("the the").ids, Ids{2, 5, 3});
  CHECK_EQ(load(R"({"model_max_length": 1000000000000000019884624838656})").max_length(), 0);
  CHECK_EQ(load(R"({"pad_token": {"content": "the"}})").special().pad, 5);
  CHECK_EQ(load(R"({"pad_token": "[NONE]"})").special().pad, 8);  // after the vocabulary
  CHECK_EQ(load(R"({"tokenizer_class": "MPNetTokenizer"})").special(),
           models::SpecialTokens{8, 9, 10, 1, 11});
  CHECK_THROWS_AS(load(R"({"model_max_length": 1})"), InputError);
  CHECK_THROWS_AS(load(R"({"model_max_length": "8"})"), InputError);
  CHECK_THROWS_AS(load(R"({"unk_token": "[NONE]"})"), InputError);
  CHECK_THROWS_AS(load("[]"), InputError);
}

TEST_CASE("settings that AutoTokenizer follows and this class does not are refused by name") {
  const TemporaryFolder folder;
  write_file(folder / "vocab.txt", kVocab);
  const std::string path = (folder / "tokenizer_config.json").string() + ": ";
  const auto complain = [&](const std::string& config, const std::string& message) {
    write_file(folder / "tokenizer_config.json", config);
    CHECK_THROWS_WITH_AS(Tokenizer::from_pretrained(folder.path()), (path + message).c_str(),
                         InputError);
  };
  complain(R"({"padding_side": "left"})",
           "padding_side: expected right: BERT counts positions from the padding on, got \"left\"");
  complain(R"({"truncation_side": "up"})", "truncation_side: expected left or right, got \"up\"");
  complain(R"({"split_special_tokens": true})", "split_special_tokens: expected false, got true");
  complain(R"({"do_lower_case": null})", "do_lower_case: expected true or false, got null");
  complain(R"({"tokenizer_class": "LlamaTokenizerFast"})",
           "tokenizer_class: expected BertTokenizer, MPNetTokenizer, XLMRobertaTokenizer, "
           "RobertaTokenizer, PreTrainedTokenizerFast or TokenizersBackend, got 'LlamaTokenizer'");
  complain(R"({"tokenizer_class": "TokenizersBackend"})",
           "tokenizer_class: 'TokenizersBackend' needs tokenizer.json, it is not there");
}

TEST_CASE(
    "vocab.txt: line ends of both kinds; as in transformers, the last of equal lines counts") {
  const TemporaryFolder folder;
  const std::string path = (folder / "vocab.txt").string();
  write_file(path, "a\r\nb\n\u00E9");
  const models::Vocabulary vocabulary = models::Vocabulary::from_file(path);
  CHECK_EQ(vocabulary.size(), 3);
  CHECK_EQ(vocabulary.find("a"), 0);
  CHECK_EQ(vocabulary.find("\u00E9"), 2);
  write_file(path, "");
  CHECK_THROWS_WITH_AS(models::Vocabulary::from_file(path),
                       (path + ": expected one word piece a line, it is empty").c_str(),
                       InputError);
  write_file(path, "a\nb \n\na\u00A0\n\nc\n\n \n");  // transformers: a 3, b 1, '' 4, c 5
  const models::Vocabulary repeated = models::Vocabulary::from_file(path);
  CHECK_EQ(repeated.size(), 6);
  CHECK_EQ(repeated.find("a"), 3);
  CHECK_EQ(repeated.find("b"), 1);
  CHECK_EQ(repeated.find("c"), 5);
  CHECK_FALSE(repeated.can_grow());
  CHECK(vocabulary.can_grow());
}

TEST_CASE("a vocab.txt with equal lines saves and loads, but takes no further token") {
  const TemporaryFolder folder, saved;
  write_file(folder / "vocab.txt", std::string(kVocab) + "a\nx\na \n\n");
  write_file(folder / "tokenizer_config.json", R"({"tokenizer_class": "BertTokenizer"})");
  const Tokenizer tokenizer = Tokenizer::from_pretrained(folder.path());
  tokenizer.save(saved.path());
  CHECK(tokenizer.encode("a x").ids == Tokenizer::from_pretrained(saved.path()).encode("a x").ids);
  write_file(folder / "tokenizer_config.json",
             R"({"tokenizer_class": "BertTokenizer", "extra_special_tokens": ["<new>"]})");
  CHECK_THROWS_WITH_AS(Tokenizer::from_pretrained(folder.path()),
                       ((folder / "vocab.txt").string() +
                        ": has equal lines, or blank ones at its end; a line is expected for token "
                        "'<new>'")
                           .c_str(),
                       InputError);
}

TEST_CASE("a folder with nothing but SentencePiece's file names the conversion") {
  const TemporaryFolder folder;
  write_file(folder / "sentencepiece.bpe.model", "\n");
  CHECK_THROWS_WITH_AS(
      Tokenizer::from_pretrained(folder.path()),
      doctest::Contains("sentencepiece.bpe.model: is not read; convert it to tokenizer.json with "
                        "python -c \"from transformers import AutoTokenizer; "),
      InputError);
}

TEST_CASE("saving into a folder that is not there") {
  const TemporaryFolder folder;
  write_file(folder / "vocab.txt", kVocab);
  const Tokenizer tokenizer = Tokenizer::from_vocab(folder / "vocab.txt");
  CHECK_THROWS_AS(tokenizer.save(folder / "none"), InputError);
  CHECK_EQ(folder.entries(), 1);
}
