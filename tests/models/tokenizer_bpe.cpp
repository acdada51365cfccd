// The ids of byte-level BPE, as RoBERTa has, are those of Hugging Face's tokenizers. Real
// sentences, pages of each script and every code point: scripts/oracles/unigram.py --compare.
#include "tokenizer_cases.h"

#include "ringlet/core/io/json.h"
#include "ringlet/models/tokenizer/piece_model.h"

using namespace ringlet;
using models::Tokenizer;

namespace {

Tokenizer read_bpe(const std::string& name) {
  return Tokenizer::from_file(models::tokenizer_file(name + ".json"));
}

void check_bpe(const Tokenizer& tokenizer, const std::string& name) {
  models::check_cases("bpe.jsonl", tokenizer, name);
}

}  // namespace

TEST_CASE("byte-level BPE: merges as pairs, and as text in older files") {
  for (const std::string name : {"tiny-bpe", "tiny-prefix", "tiny-ends"})
    check_bpe(read_bpe(name), name);
}

TEST_CASE("byte-level BPE: the same after saving and loading") {
  for (const std::string name : {"tiny-bpe", "tiny-prefix", "tiny-ends"}) {
    const TemporaryFolder folder;
    read_bpe(name).save(folder.path());
    check_bpe(Tokenizer::from_pretrained(folder.path()), name);
  }
}

TEST_CASE("RobertaTokenizer takes pieces and merges from the file, the rest is its own") {
  const TemporaryFolder folder;
  Json file = Json::parse(read_file(models::tokenizer_file("tiny-bpe.json")));
  file["normalizer"] = {{"type", "Replace"}, {"pattern", {{"String", "a"}}}, {"content", "b"}};
  file["post_processor"] = nullptr;
  write_file(folder / "tokenizer.json", file.dump());
  const auto load = [&](const Json& config) {
    write_file(folder / "tokenizer_config.json", config.dump());
    return Tokenizer::from_pretrained(folder.path());
  };
  check_bpe(load({{"tokenizer_class", "RobertaTokenizerFast"}}), "tiny-bpe");
  check_bpe(load({{"tokenizer_class", "RobertaTokenizer"}, {"add_prefix_space", true}}),
            "tiny-prefix");
  CHECK_THROWS_WITH_AS(load({{"tokenizer_class", "XLMRobertaTokenizer"}}),
                       ((folder / "tokenizer.json").string() +
                        ": model: expected Unigram with unk_id 3, as XLMRobertaTokenizer has")
                           .c_str(),
                       InputError);
}

TEST_CASE("a word of many equal pairs merges from the left, in n log n") {
  Json file = Json::parse(read_file(models::tokenizer_file("tiny-bpe.json")));
  const auto& vocab = file["model"]["vocab"];
  file["model"]["merges"] = Json::array();
  file["model"]["vocab"]["zz"] = vocab.size();
  file["model"]["merges"].push_back("z z");
  const TemporaryFolder folder;
  write_file(folder / "tokenizer.json", file.dump());
  const Tokenizer tokenizer = Tokenizer::from_file(folder / "tokenizer.json");
  const std::size_t pairs = 200'000;
  const auto ids = tokenizer.encode(std::string(2 * pairs + 1, 'z')).ids;
  REQUIRE(ids.size() == pairs + 3);
  CHECK(ids[1] == tokenizer.vocabulary().find("zz"));
  CHECK(ids[pairs + 1] == tokenizer.vocabulary().find("z"));
}

TEST_CASE("a BPE file that is wrong is named with the place in it") {
  const auto complaint = [](const char* pointer, const Json& value) {
    return models::complaint_about("tiny-bpe.json", pointer, value);
  };
  CHECK_EQ(complaint("/model/merges/0", "a"), "model.merges[0]: expected two pieces, got \"a\"");
  CHECK_EQ(complaint("/model/merges/0", {"a", "~"}),
           "model.merges[0]: expected two pieces of the vocabulary, which also has both as one, "
           "got [\"a\",\"~\"]");
  CHECK_EQ(complaint("/model/ignore_merges", true),
           "model.ignore_merges: expected false, got true");
  CHECK_EQ(complaint("/model/unk_token", "[NONE]"),
           "model.unk_token: expected a piece of the vocabulary, got \"[NONE]\"");
  CHECK_EQ(complaint("/decoder/type", "Metaspace"),
           "decoder.type: expected ByteLevel, got \"Metaspace\"");
}
