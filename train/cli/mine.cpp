// `ringlet mine`: hard negatives for pairs, from a corpus.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <memory>
#include <numeric>

#include "ringlet/core/io/json.h"
#include "ringlet/train/cli/commands.h"
#include "ringlet/train/cli/inputs.h"
#include "ringlet/train/cli/output.h"
#include "ringlet/train/cli/search_options.h"
#include "ringlet/train/data/csv.h"
#include "ringlet/train/evaluators/search/hard_negatives.h"

namespace ringlet::cli {
namespace {

// The rows are in the formats of Sentence Transformers' mine_hard_negatives.

/// triplet: a row for each positive and negative of an anchor. n_tuple: a row for each positive,
/// with all negatives; anchors with fewer are left out. labeled_pair: a row for each of them.
enum class OutputFormat { triplet, n_tuple, labeled_pair };
inline constexpr EnumNames<OutputFormat, 3> kOutputFormats{"output format",
                                                           {"triplet", "n-tuple", "labeled-pair"}};

struct MineCommand {
  SearchOptions search;
  std::string data, corpus;  // without a corpus: the positives
  train::ReadOptions read{.needs_texts = true, .score_scale = train::kAnyScale};  // none is taken
  train::MiningOptions mining;
  OutputFormat format = OutputFormat::triplet;
  bool scores = false;  // a last column with the similarities; in pairs it replaces the label
  std::filesystem::path output;
};

using train::MinedAnchor;

/// Columns that `ringlet train` reads.
std::vector<std::string> columns_of(const MineCommand& options) {
  if (options.format == OutputFormat::labeled_pair)
    return {"sentence1", "sentence2", options.scores ? "score" : "label"};
  std::vector<std::string> columns{"anchor", "positive"};
  if (options.format == OutputFormat::triplet) columns.emplace_back("negative");
  if (options.format == OutputFormat::n_tuple)
    for (std::int64_t i = 1; i <= options.mining.num_negatives; ++i)
      columns.push_back(str("negative_", i));
  if (options.scores) columns.emplace_back("scores");
  return columns;
}

void print_scores(const char* name, std::vector<float> scores) {
  if (scores.empty()) return;
  std::ranges::sort(scores);
  const double sum = std::accumulate(scores.begin(), scores.end(), 0.0);
  fmt::print("{:<10} {:>12} {:>9.4f} {:>9.4f} {:>9.4f} {:>9.4f}\n", name,
             fmt::group_digits(std::ssize(scores)), sum / static_cast<double>(scores.size()),
             scores.front(), scores[scores.size() / 2], scores.back());
}

/// Prints the scores, the candidates that options left out, and the anchors with fewer negatives
/// than `num_negatives` or with their own text among them.
void print_mined(const std::vector<MinedAnchor>& found, const train::MiningTexts& texts,
                 const train::SkippedCandidates& skipped, std::int64_t num_negatives) {
  std::vector<float> positives, negatives;
  std::int64_t incomplete = 0, own = 0;
  for (std::size_t i = 0; i < found.size(); ++i) {
    const MinedAnchor& anchor = found[i];
    positives.insert(positives.end(), anchor.positive_scores.begin(), anchor.positive_scores.end());
    for (const train::Hit& hit : anchor.negatives) negatives.push_back(hit.score);
    if (std::ssize(anchor.negatives) < num_negatives) ++incomplete;
    own += std::ranges::any_of(anchor.negatives, [&](const train::Hit& hit) {
      return texts.corpus[static_cast<std::size_t>(hit.row)] == texts.anchors[i];
    });
  }
  fmt::print("{:<10} {:>12} {:>9} {:>9} {:>9} {:>9}\n", "score", "count", "mean", "min", "median",
             "max");
  print_scores("positives", std::move(positives));
  print_scores("negatives", std::move(negatives));
  const auto print_skipped = [](std::int64_t count, const char* option) {
    if (count > 0) fmt::print("{} candidates left out by --{}\n", fmt::group_digits(count), option);
  };
  print_skipped(skipped.absolute_margin, "absolute-margin");
  print_skipped(skipped.relative_margin, "relative-margin");
  print_skipped(skipped.max_score, "max-score");
  print_skipped(skipped.min_score, "min-score");
  if (incomplete > 0)
    fmt::print("{} of {} anchors have fewer than {} negatives\n", fmt::group_digits(incomplete),
               fmt::group_digits(std::ssize(found)), num_negatives);
  if (own > 0)
    fmt::print("{} of {} anchors have their own text as a negative\n", fmt::group_digits(own),
               fmt::group_digits(std::ssize(found)));
}

/// Passes each row of an anchor to `add`.
template <class Add>
void add_rows(const MineCommand& options, const train::MiningTexts& texts, std::size_t anchor,
              const MinedAnchor& found, const Add& add) {
  const bool scores = options.scores;
  const auto document = [&](std::int64_t row) -> const std::string& {
    return texts.corpus[static_cast<std::size_t>(row)];
  };
  const auto pair = [&](std::int64_t row, int label, float score) {
    const Json target = scores ? Json(score) : Json(label);
    add(Json::array({texts.anchors[anchor], document(row), target}));
  };
  const auto tuple = [&](std::size_t positive, std::span<const train::Hit> negatives) {
    auto row = Json::array({texts.anchors[anchor], document(texts.positives[anchor][positive])});
    auto similarities = Json::array({found.positive_scores[positive]});
    for (const train::Hit& hit : negatives) {
      row.push_back(document(hit.row));
      similarities.push_back(hit.score);
    }
    if (scores) row.push_back(similarities);
    add(row);
  };
  const OutputFormat format = options.format;
  for (std::size_t i = 0; i < found.positive_scores.size(); ++i) {
    if (format == OutputFormat::labeled_pair)
      pair(texts.positives[anchor][i], 1, found.positive_scores[i]);
    else if (format == OutputFormat::triplet)
      for (const train::Hit& hit : found.negatives) tuple(i, std::span(&hit, 1));
    else if (std::ssize(found.negatives) == options.mining.num_negatives)
      tuple(i, found.negatives);
  }
  if (format == OutputFormat::labeled_pair)
    for (const train::Hit& hit : found.negatives) pair(hit.row, 0, hit.score);
}

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
  if (options.format == OutputFormat::labeled_pair && options.scores && !is_product(similarity))
    fail_input("--output-scores: expected the similarity cosine or dot with labeled-pair, found ",
               train::kSimilarities(similarity));  // `ringlet train` takes scores as cosines
  const BlockEmbedder embedder(options.search, model, world);
  if (first) print_reports(reports);
  train::HardNegativeMiner miner(texts, embedder.queries(texts.anchors).to(model.device()),
                                 similarity, options.mining, world);
  embedder.corpus(texts.corpus, [&](const Tensor& rows) { miner.add(rows); });
  const std::vector<train::MinedAnchor> found = miner.finish();
  if (!first) return;
  const std::int64_t num_negatives = options.mining.num_negatives;
  train::RowWriter rows(options.output, columns_of(options));
  std::int64_t written = 0;
  for (std::size_t anchor = 0; anchor < found.size(); ++anchor)
    add_rows(options, texts, anchor, found[anchor], [&](const Json& row) {
      rows.write(row);
      ++written;
    });
  if (written == 0)
    fail_input("--data ", options.data, ": expected an anchor with ",
               options.format == OutputFormat::n_tuple ? num_negatives : 1,
               " or more negatives within --corpus and the limits of scores, found none");
  rows.commit();
  print_mined(found, texts, miner.skipped(), num_negatives);
  fmt::print("wrote {} rows to {}\n", fmt::group_digits(written), options.output.string());
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
  command.add("--output-format", options->format, kOutputFormats,
              "triplet: a row for each negative; n-tuple: one with all negatives of an anchor; "
              "labeled-pair: pairs with the label 1 or 0");
  command.add("--output-scores", options->scores,
              "Adds the similarities; to pairs instead of the label");
  command.add("--output", options->output, "FILE.jsonl or FILE.csv").required = true;
  command.run = [options] {
    train::RowWriter::is_csv(options->output);  // or it is refused
    constexpr auto kMost = static_cast<std::int64_t>(train::kMaxColumns) - 2;
    if (options->format == OutputFormat::n_tuple && options->mining.num_negatives > kMost)
      fail_input("--output-format n-tuple: expected --num-negatives of at most ", kMost, ", found ",
                 options->mining.num_negatives);
    run_launched(options->search.timeout, [&](const comm::Group& world) {
      check_search_options(options->search);
      if (world.rank() == 0)
        check_output_file("--output", options->output,
                          {{"--data", options->data}, {"--corpus", options->corpus}});
      mine(*options, world);
    });
  };
}

}  // namespace ringlet::cli
