// `ringlet search`: the most similar texts of a corpus for each query, by comparing all of them.
#include <fmt/core.h>

#include <memory>

#include "ringlet/core/io/json.h"
#include "ringlet/train/cli/commands.h"
#include "ringlet/train/cli/inputs.h"
#include "ringlet/train/cli/output.h"
#include "ringlet/train/cli/search_options.h"
#include "ringlet/train/data/csv.h"
#include "ringlet/train/evaluators/search/similarity.h"

namespace ringlet::cli {
namespace {

struct SearchCommand {
  SearchOptions search;
  std::string queries, corpus;
  std::int64_t top_k = 10;
  std::optional<train::Similarity> similarity;  // none: the model's
  std::filesystem::path output;                 // empty: standard output
};

using Found = std::vector<std::vector<train::Hit>>;

void print(const train::TextsById& queries, const train::TextsById& corpus, const Found& found) {
  for (std::size_t query = 0; query < found.size(); ++query) {
    fmt::print("{}\n", queries.texts[query]);
    for (const train::Hit& hit : found[query]) {
      const auto row = static_cast<std::size_t>(hit.row);
      fmt::print("  {:.4f}  {}  {}\n", hit.score, corpus.ids[row], corpus.texts[row]);
    }
  }
}

void write(const std::filesystem::path& file, const train::TextsById& queries,
           const train::TextsById& corpus, const Found& found) {
  train::RowWriter rows(file, {"query-id", "query", "corpus-id", "score", "text"});
  for (std::size_t query = 0; query < found.size(); ++query)
    for (const train::Hit& hit : found[query]) {
      const auto row = static_cast<std::size_t>(hit.row);
      rows.write({queries.ids[query], queries.texts[query], corpus.ids[row], hit.score,
                  corpus.texts[row]});
    }
  rows.commit();
}

/// By all ranks together, where a launcher started several. Each searches for its share of the
/// queries; rank 0 writes.
void search(const SearchCommand& options, const comm::Group& world) {
  const bool first = world.rank() == 0;
  read_pipes({options.queries, options.corpus}, world);
  const train::TextsById queries = read_documents("--queries", options.queries),
                         corpus = read_documents("--corpus", options.corpus);
  const models::SentenceEncoder model = open_model(options.search.model, first);
  const train::Similarity similarity = options.similarity.value_or(train::own_similarity(model));
  const BlockEmbedder embedder(options.search, model, world);
  if (first) print_reports({queries.report, corpus.report});
  train::TopKSearch search(embedder.queries(queries.texts).to(model.device()), options.top_k,
                           similarity, world);
  embedder.corpus(corpus.texts, [&](const Tensor& rows) { search.add(rows); });
  const Found found = search.finish();
  if (!first) return;
  if (options.output.empty())
    print(queries, corpus, found);
  else
    write(options.output, queries, corpus, found);
}

}  // namespace

void add_search(Command& program) {
  Command& command =
      program.add_command("search", "Find the texts of a corpus that are most similar to queries");
  const auto options = std::make_shared<SearchCommand>();
  add_search_options(command, options->search);
  const std::string files =
      ": a text file, a line each (- reads standard input), or columns id and text of a .csv, "
      ".tsv or .jsonl file";
  command.add("--queries", options->queries, "Queries" + files).required = true;
  command.add("--corpus", options->corpus, "Documents" + files).required = true;
  command.add("--top-k", options->top_k, Range{1, 1 << 20}, "Documents for each query");
  command.add("--similarity", options->similarity, train::kSimilarities,
              train::kSimilarities.list() + ", by default the model's");
  command.add("--output", options->output,
              "FILE.jsonl or FILE.csv: query-id, query, corpus-id, score, text; without "
              "one the hits are printed");
  command.run = [options] {
    if (!options->output.empty()) train::RowWriter::is_csv(options->output);  // or it is refused
    if (options->queries == "-" && options->corpus == "-")
      fail_input("--corpus -: --queries reads standard input");
    run_launched(options->search.timeout, [&](const comm::Group& world) {
      check_search_options(options->search);
      if (world.rank() == 0 && !options->output.empty())
        check_output_file("--output", options->output,
                          {{"--queries", options->queries}, {"--corpus", options->corpus}});
      search(*options, world);
    });
  };
}

}  // namespace ringlet::cli
