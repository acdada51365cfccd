// `ringlet reduce`: the embeddings of an encoder projected onto their principal components.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <memory>

#include "ringlet/core/io/json.h"
#include "ringlet/train/cli/commands.h"
#include "ringlet/train/cli/inputs.h"
#include "ringlet/train/cli/interrupt.h"
#include "ringlet/train/cli/model_options.h"
#include "ringlet/train/cli/output.h"
#include "ringlet/train/evaluators/encode_together.h"
#include "ringlet/train/evaluators/pca.h"

namespace ringlet::cli {
namespace {

namespace fs = std::filesystem;

struct ReduceOptions {
  ModelOptions model;
  std::string data;
  train::ReadOptions read{.score_scale = train::kAnyScale};
  std::int64_t dim = 0;
  bool whiten = false;
  fs::path output;
  std::int64_t batch_tokens = models::EncodeOptions{}.batch_tokens;
  bool json = false;
  double timeout = 0;  // seconds; 0: GroupOptions' own
};

/// The lines of a file of texts, or all columns of a data set.
std::vector<std::string> read_data(const ReduceOptions& options, train::FileReport& report) {
  std::vector<std::string> texts;
  if (is_table(options.data)) {
    const train::TextDataset rows = train::read_dataset(options.data, options.read);
    report = rows.report();
    for (std::size_t row = 0; row < rows.size(); ++row)
      for (const std::string_view text : rows.texts(row)) texts.emplace_back(text);
  } else if (!options.read.columns.empty() || !options.read.split.name.empty()) {
    fail_input(options.read.columns.empty() ? "--split" : "--columns", ": ", options.data,
               " has no columns");
  } else {
    texts = read_texts(options.data);
  }
  const std::int64_t least = std::max<std::int64_t>(options.dim, 2);
  if (std::ssize(texts) < least)
    fail_input("--data ", options.data, ": expected at least ", least, " texts, found ",
               texts.size());
  return texts;
}

train::PrincipalComponents fit(const ReduceOptions& options, const models::SentenceEncoder& model,
                               std::span<const std::string> texts, const comm::Group& world) {
  const std::int64_t dimension = model.dimension();
  train::Pca pca(dimension);
  train::for_each_block(model, texts,
                        {.batch_tokens = options.batch_tokens, .truncate_dim = dimension}, {},
                        world, [&](const Tensor& rows) { pca.add(rows); });
  return pca.components(options.dim);
}

void print_summary(const ReduceOptions& options, std::size_t texts, std::int64_t dimension,
                   double kept) {
  if (options.json)
    return fmt::print("{}\n", Json{{"texts", texts},
                                   {"from", dimension},
                                   {"dimension", options.dim},
                                   {"variance_kept", kept}}
                                  .dump());
  fmt::print("kept {:.2f} % of the variance of {} texts in {} of {} dimensions; wrote {}\n",
             100 * kept, fmt::group_digits(texts), options.dim, dimension, options.output.string());
}

/// By all ranks together, where a launcher started several; rank 0 reads, writes and prints.
void reduce(const ReduceOptions& options, const comm::Group& world) {
  const bool first = world.rank() == 0;
  train::FileReport report;
  const std::vector<std::string> texts =
      share(first ? read_data(options, report) : std::vector<std::string>(), world);
  const models::SentenceEncoder model = open_model(options.model, first);
  if (options.dim > model.dimension())
    fail_input("--dim ", options.dim, ": the model's embeddings have ", model.dimension(),
               " numbers");
  if (first) print_reports({report});
  const train::PrincipalComponents found = fit(options, model, texts, world);
  if (!first) return;
  const InterruptGuard signals;  // one would leave a part of the folder
  train::reduced_encoder(model, found, options.whiten).save(options.output);
  print_summary(options, texts.size(), model.dimension(), found.kept());
}

}  // namespace

void add_reduce(Command& program) {
  Command& command =
      program.add_command("reduce", "Project a model's embeddings onto their principal components");
  const auto options = std::make_shared<ReduceOptions>();
  add_model_options(command, options->model, "A Sentence Transformers folder", "--model,MODEL");
  command
      .add("--data", options->data,
           "Texts to fit: a text file, a line each (- reads standard input), or the texts "
           "of a .csv, .tsv or .jsonl data set")
      .required = true;
  add_read_options(command, options->read);
  command.add("--dim", options->dim, Range{1, 1 << 16}, "Dimensions of the new embeddings")
      .required = true;
  command.add("--whiten", options->whiten,
              "Subtract the mean, divide by the standard deviations, then normalise");
  command.add("--output", options->output, "The new folder").required = true;
  command.add("--batch-tokens", options->batch_tokens, Range{1, 1 << 24},
              "Tokens of one forward, about");
  command.add("--json", options->json,
              "Print one JSON object: texts, from, dimension, variance_kept");
  add_timeout(command, options->timeout);
  command.run = [options] {
    run_launched(options->timeout, [&](const comm::Group& world) {
      if (world.rank() == 0) check_new_folder("--output", options->output);
      reduce(*options, world);
    });
  };
}

}  // namespace ringlet::cli
