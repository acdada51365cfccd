// LoRA with parameter groups and a schedule of our own, stopped and resumed with the same bits;
// then the adapters alone, read into a fresh copy of the base.
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <iostream>

#include "ringlet.h"

using namespace ringlet;
namespace fs = std::filesystem;

namespace {

constexpr std::int64_t kSteps = 24;

models::SentenceEncoder base() {
  manual_seed(3);
  models::EncoderConfig config;
  config.architecture = models::Architecture::bert;
  config.vocab_size = 9;
  config.hidden_size = 32;
  config.num_hidden_layers = 2;
  config.num_attention_heads = 2;
  config.intermediate_size = 64;
  config.max_position_embeddings = 16;
  config.type_vocab_size = 2;
  config.pad_token_id = 0;
  return {config, models::Tokenizer::from_pieces(std::vector<std::string>{
                      "[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "red", "green", "cat", "dog"})};
}

/// Pairs of texts are alike if they are about the same animal.
std::shared_ptr<train::TextDataset> pairs() {
  auto data = std::make_shared<train::TextDataset>(
      "pairs", std::vector<std::string>{"sentence1", "sentence2"}, train::Target::score);
  const std::string texts[] = {"red cat", "green cat", "red dog", "green dog"};
  for (const std::string& one : texts)
    for (const std::string& other : texts)
      data->add_row(std::vector<std::string_view>{one, other},
                    one.substr(one.size() - 3) == other.substr(other.size() - 3) ? 1 : 0);
  return data;
}

/// LoRA+ (Hayou et al., 2024): B learns faster than A. The rate falls with the root of the step.
train::TrainingArguments arguments(const fs::path& output) {
  return {.output_dir = output,
          .max_steps = kSteps,
          .per_device_train_batch_size = 4,
          .learning_rate = 2e-3,
          .lr_lambda = [](std::int64_t step) { return 1 / std::sqrt(1.0 + 0.1 * step); },
          .parameter_groups = {{.parameters = {"lora_B"}, .lr = 2e-2},
                               {.parameters = {"lora_A"}, .weight_decay = 0.01}},
          .logging_steps = kSteps,
          .save_steps = kSteps / 2};
}

struct Run {
  explicit Run(train::TrainingArguments arguments) {
    nn::add_lora(*encoder.transformer(),
                 {.r = 4, .alpha = 8, .target_modules = {"query", "value"}});  // the rest is frozen
    train::Trainer trainer(loss, {pairs()}, encoder.tokenizer(), std::move(arguments));
    result = trainer.train();
  }
  std::vector<float> embedding() const { return encoder.encode("green dog").to_vector(); }

  models::SentenceEncoder encoder = base();
  models::CosineSimilarityLoss loss{encoder};
  train::TrainingResult result;
};

bool check(const char* what, bool holds) {
  std::cout << what << (holds ? ": yes\n" : ": NO\n");
  return holds;
}

}  // namespace

int main() {
  const fs::path folder = fs::temp_directory_path() / ("lora-" + std::to_string(::getpid()));
  const Run whole(arguments(folder / "whole"));
  train::TrainingArguments second = arguments(folder / "resumed");
  second.resume_from_checkpoint = folder / "whole" / "checkpoint-12";
  const Run resumed(second);
  bool good = check("the resumed run ends with the same bits",
                    resumed.result.steps == kSteps && resumed.embedding() == whole.embedding());

  second.parameter_groups[0].lr = 1e-2;
  try {
    const Run other(second);
    good = check("other groups are refused", false);
  } catch (const InputError& error) {
    std::cout << error.what() << "\n";
    good &= check("other groups are refused", true);
  }

  nn::save_lora(*whole.encoder.transformer(), folder / "adapter");
  const models::SentenceEncoder fresh = base();
  nn::load_lora(*fresh.transformer(), folder / "adapter");
  good &= check("the adapters alone give the same embeddings",
                fresh.encode("green dog").to_vector() == whole.embedding());
  fs::remove_all(folder);
  return good ? 0 : 1;
}
