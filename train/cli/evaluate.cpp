// `ringlet evaluate`: the figures of a model on a file, by the evaluator that its columns call for.
#include <fmt/core.h>

#include <algorithm>
#include <memory>

#include "ringlet/core/io/json.h"
#include "ringlet/train/cli/commands.h"
#include "ringlet/train/cli/evaluation_data.h"
#include "ringlet/train/cli/inputs.h"
#include "ringlet/train/cli/model_options.h"
#include "ringlet/train/cli/output.h"
#include "ringlet/train/data/bytes.h"
#include "ringlet/train/data/readers.h"
#include "ringlet/train/evaluators/embedding_evaluators.h"
#include "ringlet/train/evaluators/encode_together.h"

namespace ringlet::cli {
namespace {

struct EvaluateOptions {
  ModelOptions model;
  EvaluationSource source;
  std::string teacher;            // a folder; empty: none
  std::string name;               // in metrics and names of tables
  std::string output;             // a folder for tables; empty: none
  std::int64_t truncate_dim = 0;  // 0: the folder's
  bool json = false;
  double timeout = 0;  // seconds; 0: GroupOptions' own
};

EvaluationData read_data(const EvaluateOptions& options) {
  EvaluationSource source = options.source;
  source.classes = head_labels(options.model.model);
  for (const train::Similarity similarity : source.similarities)
    if (std::ranges::count(source.similarities, similarity) > 1)
      fail_input("--similarity ", train::kSimilarities(similarity), ": expected each once");
  EvaluationData data = read_evaluation_data(source, options.name);
  if (!data.dataset && !source.read.columns.empty())
    fail_input("--columns: ", source.file, " has no columns of sentences to rename");
  if (source.read.score_scale && !(data.dataset && data.dataset->target() == train::Target::score))
    fail_input("--score-scale: ", source.file, " has no similarity scores");
  return data;
}

/// The teacher embeds the first column; the model is to embed the last one alike.
EvaluationData read_data_of_teacher(const EvaluateOptions& options, const comm::Group& world) {
  const EvaluationSource& source = options.source;
  if (source.kind || !source.similarities.empty())
    fail_input(source.kind ? "--evaluator" : "--similarity",
               ": --teacher compares embeddings itself");
  if (!(source.corpus.empty() && source.queries.empty()))
    fail_input(source.corpus.empty() ? "--queries" : "--corpus", ": --teacher compares the rows ",
               "of --data alone");
  auto dataset =
      std::make_shared<const train::TextDataset>(train::read_dataset(source.file, source.read));
  const auto teacher =
      models::SentenceEncoder::from_pretrained(options.teacher, use_device(options.model));
  auto evaluator = std::make_shared<train::MSEEvaluator>(
      train::embed_blocks(teacher, train::column_texts(*dataset, 0), {}, world),
      train::column_texts(*dataset, dataset->columns().size() - 1),
      train::MSEEvaluator::Options{.name = options.name});
  return {.name = options.name,
          .dataset = dataset,
          .evaluator = evaluator,
          .rows = dataset->size(),
          .unit = "texts",
          .reports = {dataset->report()}};
}

void print(const EvaluateOptions& options, const EvaluationData& data,
           const train::Report& report) {
  if (options.json) {
    Json json{{"rows", data.rows}, {"evaluator", data.evaluator->kind()}};
    for (const auto& [name, value] : report.metrics()) json[name] = value;
    json["primary_metric"] = report.primary().first;
    fmt::print("{}\n", json.dump());
    return;
  }
  fmt::print("{} {} of {}\n", data.rows, data.unit, train::input_name(options.source.file));
  std::size_t width = 20;
  for (const auto& metric : report.metrics()) width = std::max(width, metric.first.size());
  for (const auto& [name, value] : report.metrics())
    fmt::print("{:<{}} {:.4f}\n", name, width, value);
  if (report.metrics().size() > 1) fmt::print("primary metric: {}\n", report.primary().first);
}

/// By all ranks together, where a launcher started several; rank 0 prints.
void evaluate(const EvaluateOptions& options, const comm::Group& world) {
  if (world.rank() == 0 && !options.output.empty())
    check_writable_folder("--output", options.output);
  read_pipes({options.source.file, options.source.corpus, options.source.queries}, world);
  EvaluationData data =
      options.teacher.empty() ? read_data(options) : read_data_of_teacher(options, world);
  const models::SentenceEncoder model = open_model(options.model, world.rank() == 0);
  if (options.truncate_dim > 0 && data.label_accuracy)
    fail_input("--truncate-dim: label accuracy needs whole embeddings");
  truncate(model, options.truncate_dim);
  if (data.label_accuracy) data.set_classifier(read_head(options.model.model, model));
  const train::Report report =
      data.evaluator->report(model, {.output = options.output, .group = world});
  if (world.rank() != 0) return;
  print_reports(data.reports);
  print(options, data, report);
}

}  // namespace

void add_evaluate(Command& program) {
  Command& command = program.add_command("evaluate", "Evaluate a model on a file");
  const auto options = std::make_shared<EvaluateOptions>();
  EvaluationSource& source = options->source;
  add_model_options(command, options->model, "A Sentence Transformers folder");
  command
      .add("--data", source.file,
           "Pairs with scores or labels, triplets, relevant pairs or reranking rows; - reads "
           "standard input")
      .required = true;
  command.add("--evaluator", source.kind, kEvaluators,
              "By default what the columns call for: " + kEvaluators.list());
  command.add("--similarity", source.similarities, train::kSimilarities,
              "cosine, dot, euclidean or manhattan, may be repeated; by default the model's");
  command.add("--corpus", source.corpus,
              "Documents of relevant pairs: id and text (corpus.jsonl near --data)");
  command.add("--queries", source.queries,
              "Queries of relevant pairs: id and text (queries.jsonl near --data)");
  command.add("--teacher", options->teacher,
              "A folder: the mean squared distance from its embeddings");
  add_truncate_dim(command, options->truncate_dim);
  add_read_options(command, source.read);
  command.add("--score-scale", source.read.score_scale, kScoreScales,
              "The best score: 1, or 5 for the STS benchmark, unless given");
  command.add("--name", options->name, "Before each metric and in names of tables");
  command.add("--output", options->output,
              "A folder for the table that Sentence Transformers writes");
  command.add("--json", options->json, "Print one JSON object");
  add_timeout(command, options->timeout);
  command.add_config();
  command.run = [options] {
    if (options->name.find('/') != std::string::npos)
      fail_input("--name ", options->name, ": expected a part of a file's name, without '/'");
    run_launched(options->timeout, [&](const comm::Group& world) { evaluate(*options, world); });
  };
}

}  // namespace ringlet::cli
