// Texts with the ids of Hugging Face's tokenizers (tests/oracles/README.md, tokenizer/).
#pragma once

#include <doctest/doctest.h>

#include <fstream>
#include <string>
#include <vector>

#include "ringlet/core/base/error.h"
#include "ringlet/core/io/file.h"
#include "ringlet/core/io/json.h"
#include "ringlet/models/tokenizer/tokenizer.h"
#include "ringlet/tests/files.h"
#include "ringlet/tests/json_path.h"
#include "ringlet/tests/message.h"

namespace ringlet::models {

inline std::filesystem::path tokenizer_file(const std::string& name) {
  return std::filesystem::path(tests_file("oracles/tokenizer")) / name;
}

/// Compares ids and decoded text of every line of `cases` with those of the tokenizer `name`.
inline void check_cases(const std::string& cases, const Tokenizer& tokenizer,
                        const std::string& name) {
  std::ifstream file(tokenizer_file(cases));
  int count = 0;
  for (std::string line; std::getline(file, line); ++count) {
    const auto entry = Json::parse(line);
    const auto text = entry.at("text").get<std::string>();
    INFO(name << ": " << entry.at("text").dump());
    const auto ids = entry.contains("pair")
                         ? tokenizer.encode(text, entry.at("pair").get<std::string>()).ids
                         : tokenizer.encode(text).ids;
    CHECK_EQ(ids, entry.at(name).at(0).get<std::vector<std::int32_t>>());
    CHECK_EQ(tokenizer.decode(ids), entry.at(name).at(1).get<std::string>());
  }
  CHECK_GT(count, 250);
}

/// The error of a tokenizer file with one value changed, without the path.
inline std::string complaint_about(const std::string& name, const char* pointer,
                                   const Json& value) {
  auto file = Json::parse(read_file(tokenizer_file(name)));
  value_at(file, pointer) = value;
  const TemporaryFolder folder;
  write_file(folder / "tokenizer.json", file.dump());
  const std::string message =
      message_of<InputError>([&] { Tokenizer::from_file(folder / "tokenizer.json"); });
  return message.substr(std::min(message.size(), (folder / "tokenizer.json: ").string().size()));
}

}  // namespace ringlet::models
