// `ringlet evaluate`: how well the similarities of a model order scored pairs.
#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>

#include "ringlet/train/cli/commands.h"
#include "ringlet/train/cli/model_options.h"
#include "ringlet/train/cli/option_values.h"
#include "ringlet/train/cli/training_data.h"
#include "ringlet/train/evaluators/embedding_similarity_evaluator.h"

namespace ringlet::cli {
namespace {

struct EvaluateOptions {
  ModelOptions model;
  std::string data;
  train::ReadOptions read;
  bool json = false;
  double timeout = 0;  // seconds; 0: GroupOptions' own
};

/// By all ranks together, where a launcher started several; rank 0 prints.
void evaluate(const EvaluateOptions& options, const comm::Group& world) {
  const auto data = read_scored_pairs("--data", options.data, options.read);
  const models::SentenceEncoder model = open_model(options.model, world.rank() == 0);
  const train::Metrics metrics =
      train::EmbeddingSimilarityEvaluator(*data, {}).evaluate(model, {.group = world});
  if (world.rank() != 0) return;
  if (options.json) {
    nlohmann::ordered_json json{{"rows", data->size()}};
    for (const auto& [name, value] : metrics) json[name] = value;
    fmt::print("{}\n", json.dump());
    return;
  }
  fmt::print("{} pairs of {}\n", data->size(), options.data);
  for (const auto& [name, value] : metrics) fmt::print("{:<20} {:.4f}\n", name, value);
}

}  // namespace

void add_evaluate(CLI::App& app) {
  CLI::App* command =
      app.add_subcommand("evaluate", "Correlate similarities of embeddings with gold scores");
  const auto options = std::make_shared<EvaluateOptions>();
  add_model_options(*command, options->model, "A Sentence Transformers folder");
  command->add_option("--data", options->data, "Scored pairs, for instance the STS benchmark's CSV")
      ->required();
  command->add_option("--columns", options->read.columns, "Renames: NAME_IN_FILE=NAME,...");
  add_score_scale(*command, options->read.score_scale);
  command->add_flag("--json", options->json, "Print one JSON object");
  add_timeout(*command, options->timeout);
  command->callback([options] {
    comm::run_from_env([&](const comm::Group& world) { evaluate(*options, world); },
                       launched_options(options->timeout));
  });
}

}  // namespace ringlet::cli
