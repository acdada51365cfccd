// `ringlet mine`: hard negatives for pairs, from a corpus.
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <memory>

#include "ringlet/train/cli/commands.h"
#include "ringlet/train/cli/mined_rows.h"
#include "ringlet/train/cli/option_values.h"
#include "ringlet/train/cli/output.h"
#include "ringlet/train/cli/pipes.h"
#include "ringlet/train/cli/read_options.h"
#include "ringlet/train/cli/search_options.h"
#include "ringlet/train/cli/texts.h"
#include "ringlet/train/evaluators/search/hard_negatives.h"

namespace ringlet::cli {
namespace {

struct MineCommand {
  SearchOptions search;
  std::string data, corpus;  // without a corpus: the positives
  train::ReadOptions read{.needs_texts = true, .score_scale = train::kAnyScale};  // none is taken
  train::MiningOptions mining;
  MinedFormat format;
  std::filesystem::path output;
};

train::MiningTexts read_mining_texts(const MineCommand& options, const comm::Group& world,
                                     std::vector<train::FileReport>& reports) {
  const train::TextDataset pairs = train::read_dataset(options.data, options.read);
  reports.push_back(pairs.report());
  if (pairs.target() != train::Target::none)
    fail_input("--data ", options.data, ": expected pairs of texts without labels or scores");
  if (pairs.columns().size() != 2)
    fail_input("--data ", options.data, ": expected two columns of texts, found ",
               fmt::format("{}", fmt::join(pairs.columns(), ", ")));
  std::vector<std::string> corpus;
  if (!options.corpus.empty()) {
    train::TextsById documents = read_documents("--corpus", options.corpus, world);
    corpus = std::move(documents.texts);
    reports.push_back(std::move(documents.report));
  }
  train::MiningTexts texts = mining_texts(pairs, corpus);
  of_option("--range-max", [&] { return range_max(options.mining, texts); });  // or it is refused
  return texts;
}

/// By all ranks together, where a launcher started several. Each searches for its share of the
/// anchors; rank 0 writes.
void mine(const MineCommand& options, const comm::Group& world) {
  read_pipes({options.data, options.corpus}, world);
  std::vector<train::FileReport> reports;
  const train::MiningTexts texts = read_mining_texts(options, world, reports);
  const bool first = world.rank() == 0;
  const models::SentenceEncoder model = open_model(options.search.model, first);
  const train::Similarity similarity = train::own_similarity(model);
  check_scores(options.format, similarity);
  const BlockEmbedder embedder(options.search, model, world);
  if (first) print_reports(reports);
  train::HardNegativeMiner miner(texts, embedder.queries(texts.anchors).to(model.device()),
                                 similarity, options.mining, world);
  embedder.corpus(texts.corpus, [&](const Tensor& rows) { miner.add(rows); });
  const std::vector<train::MinedAnchor> found = miner.finish();
  if (!first) return;
  const std::int64_t num_negatives = options.mining.num_negatives;
  MinedRows rows(options.output, options.format, num_negatives, texts);
  for (std::size_t anchor = 0; anchor < found.size(); ++anchor) rows.write(anchor, found[anchor]);
  if (rows.written() == 0)
    fail_input("--data ", options.data, ": no anchor has ",
               options.format.format == OutputFormat::n_tuple ? num_negatives : 1,
               " negatives that --corpus and the options leave");
  rows.commit();
  print_mined(found, texts, miner.skipped(), num_negatives);
  fmt::print("wrote {} rows to {}\n", fmt::group_digits(rows.written()), options.output.string());
}

void check_output(const MineCommand& options) {
  check_output_file("--output", options.output);
  check_not_input("--output", options.output, "--data", options.data);
  check_not_input("--output", options.output, "--corpus", options.corpus);
}

void add_mining_options(CLI::App& command, train::MiningOptions& options) {
  constexpr int kMost = 1 << 20;
  add_number(command, "--num-negatives", options.num_negatives, 1, kMost, "For each anchor")
      ->capture_default_str();
  add_number(command, "--range-min", options.range_min, 0, kMost,
             "Leave out so many of the most similar candidates")
      ->capture_default_str();
  add_number(command, "--range-max", options.range_max, 1, kMost,
             "Candidates of an anchor, the most similar; by default as many as negatives and "
             "positives need, ten times as many where an option leaves some out");
  add_number(command, "--max-score", options.max_score, -1e9, 1e9,
             "Leave out candidates with a larger similarity");
  add_number(command, "--min-score", options.min_score, -1e9, 1e9,
             "Leave out candidates with a smaller similarity");
  add_number(command, "--absolute-margin", options.absolute_margin, -1e9, 1e9,
             "Leave out candidates that are not less similar than the positive by so much");
  add_number(command, "--relative-margin", options.relative_margin, -1e9, 1e9,
             "The same, as a share of the positive's similarity: 0.05");
  add_choice(command, "--sampling-strategy", options.sampling, train::kNegativeSamplings,
             "top, the most similar candidates, or random ones");
  add_seed(command, options.seed, "Of random negatives");
}

}  // namespace

void add_mine(CLI::App& app) {
  CLI::App* command =
      app.add_subcommand("mine", "Find hard negatives for pairs of an anchor and a positive");
  const auto options = std::make_shared<MineCommand>();
  add_search_options(*command, options->search);
  command->add_option("--data", options->data, "Pairs: a .csv, .tsv or .jsonl file")->required();
  add_read_options(*command, options->read);
  command->add_option("--corpus", options->corpus,
                      "More texts to choose from, besides the positives: a text file, a line each, "
                      "or columns id and text of a .csv, .tsv or .jsonl file");
  add_mining_options(*command, options->mining);
  add_choice(*command, "--output-format", options->format.format, kOutputFormats,
             "triplet: a row for each negative; n-tuple: one with all negatives of an anchor; "
             "labeled-pair: pairs with the label 1 or 0");
  command->add_flag("--output-scores", options->format.scores,
                    "Adds the similarities; to pairs instead of the label");
  command->add_option("--output", options->output, "FILE.jsonl or FILE.csv")->required();
  command->callback([options] {
    train::RowWriter::is_csv(options->output);  // or it is refused
    check_format(options->format, options->mining.num_negatives);
    comm::run_from_env(
        [&](const comm::Group& world) {
          check_search_options(options->search);
          if (world.rank() == 0) check_output(*options);
          mine(*options, world);
        },
        launched_options(options->search.timeout));
  });
}

}  // namespace ringlet::cli
