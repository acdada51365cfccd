// `ringlet mine`: hard negatives for pairs, from a corpus.
#include <fmt/ranges.h>

#include <memory>

#include "ringlet/train/cli/commands.h"
#include "ringlet/train/cli/mined_rows.h"
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

train::MiningTexts read_mining_texts(const MineCommand& options,
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
    train::TextsById documents = read_documents("--corpus", options.corpus);
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
  const train::MiningTexts texts = read_mining_texts(options, reports);
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

void add_mining_options(Command& command, train::MiningOptions& options) {
  constexpr int kMost = 1 << 20;
  command.add("--num-negatives", options.num_negatives, Range{1, kMost}, "For each anchor");
  command.add("--range-min", options.range_min, Range{0, kMost},
              "Leave out so many of the most similar candidates");
  command.add("--range-max", options.range_max, Range{1, kMost},
              "Candidates of an anchor, the most similar; by default as many as negatives and "
              "positives need, ten times as many where an option leaves some out");
  command.add("--max-score", options.max_score, Range{-1e9, 1e9},
              "Leave out candidates with a larger similarity");
  command.add("--min-score", options.min_score, Range{-1e9, 1e9},
              "Leave out candidates with a smaller similarity");
  command.add("--absolute-margin", options.absolute_margin, Range{-1e9, 1e9},
              "Leave out candidates that are not less similar than the positive by so much");
  command.add("--relative-margin", options.relative_margin, Range{-1e9, 1e9},
              "The same, as a share of the positive's similarity: 0.05");
  command.add("--sampling-strategy", options.sampling, train::kNegativeSamplings,
              "top, the most similar candidates, or random ones");
  add_seed(command, options.seed, "Of random negatives");
}

}  // namespace

void add_mine(Command& program) {
  Command& command =
      program.add_command("mine", "Find hard negatives for pairs of an anchor and a positive");
  const auto options = std::make_shared<MineCommand>();
  add_search_options(command, options->search);
  command.add("--data", options->data, "Pairs: a .csv, .tsv or .jsonl file").required = true;
  add_read_options(command, options->read);
  command.add("--corpus", options->corpus,
              "More texts to choose from, besides the positives: a text file, a line each, "
              "or columns id and text of a .csv, .tsv or .jsonl file");
  add_mining_options(command, options->mining);
  command.add("--output-format", options->format.format, kOutputFormats,
              "triplet: a row for each negative; n-tuple: one with all negatives of an anchor; "
              "labeled-pair: pairs with the label 1 or 0");
  command.add("--output-scores", options->format.scores,
              "Adds the similarities; to pairs instead of the label");
  command.add("--output", options->output, "FILE.jsonl or FILE.csv").required = true;
  command.run = [options] {
    train::RowWriter::is_csv(options->output);  // or it is refused
    check_format(options->format, options->mining.num_negatives);
    comm::run_from_env(
        [&](const comm::Group& world) {
          check_search_options(options->search);
          if (world.rank() == 0) check_output(*options);
          mine(*options, world);
        },
        launched_options(options->search.timeout));
  };
}

}  // namespace ringlet::cli
