// `ringlet evaluate`: how well cosine similarities order scored pairs.
#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>

#include "ringlet/train/cli/commands.h"
#include "ringlet/train/cli/model_options.h"
#include "ringlet/train/cli/training_data.h"
#include "ringlet/train/evaluator.h"

namespace ringlet::cli {
namespace {

struct Options {
  ModelOptions model;
  std::string data;
  train::ReadOptions read;
  bool json = false;
};

void evaluate(const Options& options) {
  const auto data = read_scored_pairs("--data", options.data, options.read);
  const models::SentenceEncoder model = open_model(options.model);
  const train::Metrics metrics = train::EmbeddingSimilarityEvaluator(*data, {}).evaluate(model);
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
  const auto options = std::make_shared<Options>();
  add_model_options(*command, options->model, "A Sentence Transformers folder");
  command->add_option("--data", options->data, "Scored pairs, for instance the STS benchmark's CSV")
      ->required();
  command->add_option("--columns", options->read.columns, "Renames: NAME_IN_FILE=NAME,...");
  add_score_scale(*command, options->read.score_scale);
  command->add_flag("--json", options->json, "Print one JSON object");
  command->callback([options] { evaluate(*options); });
}

}  // namespace ringlet::cli
