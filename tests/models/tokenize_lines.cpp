// Reads one JSON value per line, a text or a pair [text, text], and prints its ids.
//
//   tokenize_lines vocab.txt|tokenizer.json|FOLDER [--max-length N | --as-saved] [--time ROUNDS]
//
// Texts are truncated only with --max-length, or with --as-saved to the length in the files. With
// --time only the words per second of encoding all lines ROUNDS times are printed.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <iostream>
#include <sstream>
#include <string>
#include <vector>

#include "ringlet/core/base/error.h"
#include "ringlet/core/io/json.h"
#include "ringlet/models/tokenizer/tokenizer.h"

using namespace ringlet;
using models::Tokenizer;

namespace {

Tokenizer load(const std::filesystem::path& path) {
  if (std::filesystem::is_directory(path)) return Tokenizer::from_pretrained(path);
  return path.extension() == ".json" ? Tokenizer::from_file(path) : Tokenizer::from_vocab(path);
}

void print(const models::Encoding& encoding) {
  for (const std::int32_t id : encoding.ids) std::printf("%d ", id);
  std::putchar('\n');
}

std::size_t count_words(const std::string& text) {
  std::istringstream words(text);
  std::size_t count = 0;
  for (std::string word; words >> word;) ++count;
  return count;
}

void measure(const Tokenizer& tokenizer, const std::vector<std::string>& texts, int rounds) {
  std::size_t words = 0;
  for (const std::string& text : texts) words += count_words(text);
  std::size_t tokens = 0;
  double best = 1e30;
  for (int round = 0; round < rounds; ++round) {
    const auto start = std::chrono::steady_clock::now();
    tokens = tokenizer.encode_batch(texts).ids.size();
    const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
    best = std::min(best, elapsed.count());
  }
  std::printf("%zu texts, %zu words, %zu tokens: %.2f million words/s\n", texts.size(), words,
              tokens, 1e-6 * static_cast<double>(words) / best);
}

int run(int argc, char** argv) {
  if (argc < 2) fail_input("expected a vocabulary, a tokenizer.json or a folder");
  Tokenizer tokenizer = load(argv[1]);
  if (argc < 3 || std::strcmp(argv[2], "--as-saved") != 0) tokenizer.set_max_length(0);
  int rounds = 0;
  for (int i = 2; i + 1 < argc; i += 2) {
    if (std::strcmp(argv[i], "--max-length") == 0) tokenizer.set_max_length(std::stol(argv[i + 1]));
    if (std::strcmp(argv[i], "--time") == 0) rounds = std::stoi(argv[i + 1]);
  }
  std::vector<std::string> texts;
  for (std::string line; std::getline(std::cin, line);) {
    const auto value = Json::parse(line);
    if (value.is_array()) {
      print(tokenizer.encode(value.at(0).get<std::string>(), value.at(1).get<std::string>()));
    } else if (rounds > 0) {
      texts.push_back(value.get<std::string>());
    } else {
      print(tokenizer.encode(value.get<std::string>()));
    }
  }
  if (rounds > 0) measure(tokenizer, texts, rounds);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 2;
  }
}
