// A language of four words, for tests that need some text.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "ringlet/models/config.h"
#include "ringlet/models/tokenizer/tokenizer.h"
#include "ringlet/train/data/dataset.h"

namespace words {

enum : std::int32_t { kPad, kUnk, kCls, kSep, kMask, kA, kB, kC, kD };

inline ringlet::models::Tokenizer tokenizer() {
  return ringlet::models::Tokenizer::from_pieces(
      std::vector<std::string>{"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "b", "c", "d"});
}

/// Two layers of 16 columns for that tokenizer.
inline ringlet::models::EncoderConfig encoder_config(ringlet::models::Architecture architecture) {
  ringlet::models::EncoderConfig config;
  config.architecture = architecture;
  config.vocab_size = 9;
  config.hidden_size = 16;
  config.num_hidden_layers = 2;
  config.num_attention_heads = 2;
  config.intermediate_size = 32;
  config.max_position_embeddings = 16;
  config.type_vocab_size = architecture == ringlet::models::Architecture::bert ? 2 : 0;
  config.pad_token_id = 0;
  return config;
}

/// Word `i` and the following ones: 1 to 4 words.
inline std::string text(std::size_t i) {
  const char* words[] = {"a", "b", "c", "d"};
  std::string out = words[i % 4];
  for (std::size_t more = 0; more < i / 4 % 4; ++more) out += std::string(" ") + words[more];
  return out;
}

/// Pairs of texts; row i has label i % classes, or i.
inline std::shared_ptr<ringlet::train::TextDataset> dataset(std::size_t rows,
                                                            std::size_t classes = 0,
                                                            const std::string& name = "words") {
  auto data = std::make_shared<ringlet::train::TextDataset>(
      name, std::vector<std::string>{"sentence1", "sentence2"}, ringlet::train::Target::label);
  for (std::size_t i = 0; i < rows; ++i) {
    const std::string first = text(i), second = text(i * 7 + 3);
    data->add_row(std::vector<std::string_view>{first, second},
                  static_cast<double>(classes ? i % classes : i));
  }
  return data;
}

/// Pairs of texts; the score is high if both begin with the same word.
inline std::shared_ptr<ringlet::train::TextDataset> scored_dataset(std::size_t rows) {
  auto data = std::make_shared<ringlet::train::TextDataset>(
      "scores", std::vector<std::string>{"sentence1", "sentence2"}, ringlet::train::Target::score);
  for (std::size_t i = 0; i < rows; ++i) {
    const std::string first = text(i), second = text(i * 3);
    data->add_row(std::vector<std::string_view>{first, second}, first[0] == second[0] ? 0.9 : 0.1);
  }
  return data;
}

}  // namespace words
