// The same ids as Hugging Face's tokenizers on difficult texts. Every sentence of the real data,
// and every code point, is compared by scripts/oracles/tokenizer.py --compare.
#include <doctest/doctest.h>

#include <fstream>
#include <string>
#include <vector>

#include "ringlet/core/base/error.h"
#include "ringlet/core/io/file.h"
#include "ringlet/core/io/json.h"
#include "ringlet/models/tokenizer/tokenizer.h"
#include "ringlet/models/tokenizer/unicode.h"
#include "ringlet/tests/files.h"

using namespace ringlet;
using models::Encoding;
using models::Tokenizer;

namespace {

using Ids = std::vector<std::int32_t>;

const std::filesystem::path kFolder = tests_file("oracles/tokenizer");

std::vector<Json> read_cases() {
  std::vector<Json> cases;
  std::ifstream file(kFolder / "cases.jsonl");
  for (std::string line; std::getline(file, line);) cases.push_back(Json::parse(line));
  REQUIRE(cases.size() > 200);
  return cases;
}

Encoding encode(const Tokenizer& tokenizer, const Json& entry) {
  const auto text = entry.at("text").get<std::string>();
  if (!entry.contains("pair")) return tokenizer.encode(text);
  return tokenizer.encode(text, entry.at("pair").get<std::string>());
}

void check_all(const Tokenizer& tokenizer, const std::string& name) {
  for (const Json& entry : read_cases()) {
    INFO(name << ": " << entry.at("text").dump());
    CHECK_EQ(encode(tokenizer, entry).ids, entry.at(name).get<Ids>());
  }
}

}  // namespace

TEST_CASE("small vocabularies: usual, MPNet, cased with odd added tokens, normalized ones") {
  for (const char* name : {"tiny-bert", "tiny-mpnet", "tiny-cased", "tiny-added"}) {
    check_all(Tokenizer::from_file(kFolder / (std::string(name) + ".json")), name);
  }
}

TEST_CASE("the same after saving and loading") {
  for (const char* name : {"tiny-bert", "tiny-mpnet", "tiny-cased", "tiny-added"}) {
    const TemporaryFolder folder;
    Tokenizer::from_file(kFolder / (std::string(name) + ".json")).save(folder.path());
    check_all(Tokenizer::from_pretrained(folder.path()), name);
  }
}

TEST_CASE("an added token that begins in the white space which the one before strips") {
  std::ifstream file(kFolder / "stripped.jsonl");
  int kinds = 0;
  for (std::string line; std::getline(file, line); ++kinds) {
    const Json entry = Json::parse(line);
    const TemporaryFolder folder;
    write_file(folder / "tokenizer.json", entry.at("tokenizer").dump());
    const Tokenizer tokenizer = Tokenizer::from_file(folder / "tokenizer.json");
    for (std::size_t i = 0; i < entry.at("texts").size(); ++i) {
      INFO(entry.at("texts").at(i).dump());
      CHECK_EQ(tokenizer.encode(entry.at("texts").at(i).get<std::string>()).ids,
               entry.at("ids").at(i).get<Ids>());
    }
  }
  CHECK_EQ(kinds, 3);
}

TEST_CASE("a folder's files count as for AutoTokenizer") {
  std::ifstream file(kFolder / "folders.jsonl");
  int folders = 0;
  for (std::string line; std::getline(file, line); ++folders) {
    const Json entry = Json::parse(line);
    INFO(entry.at("name").get<std::string>());
    const TemporaryFolder folder;
    for (const auto& [name, value] : entry.at("files").items())
      write_file(folder / name, value.is_string() ? value.get<std::string>() : value.dump());
    if (entry.at("ids").is_null()) {
      CHECK_THROWS_AS(Tokenizer::from_pretrained(folder.path()), InputError);
      continue;
    }
    const Tokenizer tokenizer = Tokenizer::from_pretrained(folder.path());
    const TemporaryFolder again;
    tokenizer.save(again.path());
    const Tokenizer saved = Tokenizer::from_pretrained(again.path());
    for (std::size_t i = 0; i < entry.at("texts").size(); ++i) {
      const auto text = entry.at("texts").at(i).get<std::string>();
      INFO(text);
      CHECK_EQ(tokenizer.encode(text).ids, entry.at("ids").at(i).get<Ids>());
      CHECK_EQ(saved.encode(text).ids, entry.at("ids").at(i).get<Ids>());
    }
  }
  CHECK_GT(folders, 60);
}

TEST_CASE("code points that belong to a word, beside a token that stands alone") {
  char32_t differ = 0, next = 0;
  for (const Json& range : Json::parse(read_file(kFolder / "word_characters.json"))) {
    const auto first = range.at(0).get<char32_t>(), last = range.at(1).get<char32_t>();
    for (; next < first; ++next) differ += models::unicode::is_word(next);
    for (; next <= last; ++next) differ += !models::unicode::is_word(next);
  }
  for (; next < 0x110000; ++next) differ += models::unicode::is_word(next);
  CHECK_EQ(static_cast<std::uint32_t>(differ), 0);
}

TEST_CASE("token types and decoded text") {
  const Tokenizer tokenizer = Tokenizer::from_file(kFolder / "tiny-bert.json");
  for (const Json& entry : read_cases()) {
    INFO(entry.at("text").dump());
    const Encoding encoding = encode(tokenizer, entry);
    CHECK_EQ(encoding.type_ids, entry.at("type_ids").get<Ids>());
    CHECK_EQ(tokenizer.decode(encoding.ids), entry.at("decoded").get<std::string>());
  }
}

TEST_CASE("the published vocabularies") {
  for (const char* name : {"bert-base-uncased", "mpnet-base"}) {
    const auto path = real_data("vocab/" + std::string(name) + ".vocab.txt");
    if (path.empty()) return;
    check_all(Tokenizer::from_vocab(path), name);
  }
}
