// `ringlet encode`: a text in, an embedding out.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <filesystem>
#include <memory>
#include <optional>

#include "ringlet/core/device/device_time.h"
#include "ringlet/core/io/file.h"
#include "ringlet/core/io/json.h"
#include "ringlet/train/cli/commands.h"
#include "ringlet/train/cli/inputs.h"
#include "ringlet/train/cli/model_options.h"
#include "ringlet/train/cli/output.h"
#include "ringlet/train/evaluators/encode_together.h"
#include "ringlet/train/evaluators/npy.h"
#include "ringlet/train/report/progress.h"

namespace ringlet::cli {
namespace {

struct EncodeOptions {
  ModelOptions model;
  std::string input;
  std::filesystem::path output;
  models::EncodeOptions how;
  std::int64_t truncate_dim = 0;  // 0: the folder's
  bool json = false;
  double timeout = 0;  // seconds; 0: GroupOptions' own
};

bool is_jsonl(const std::filesystem::path& path) {
  if (path.extension() == ".jsonl") return true;
  if (path.extension() == ".npy") return false;
  fail_input("--output ", path.string(), ": expected a name that ends in .npy or .jsonl");
}

/// Where embeddings go, a chunk at a time.
class Sink {
 public:
  Sink(const std::filesystem::path& path, std::size_t rows, std::int64_t dimension) {
    if (is_jsonl(path))
      jsonl_.emplace(path);
    else
      npy_.emplace(path, static_cast<std::int64_t>(rows), dimension);
  }
  /// The embeddings of `rows` from row `begin`.
  void write(const train::TextsById& rows, std::size_t begin, const Tensor& embeddings) {
    if (npy_) return npy_->write(embeddings);
    for (std::int64_t i = 0; i < embeddings.size(0); ++i) {
      const std::size_t row = begin + static_cast<std::size_t>(i);
      const auto member = [&](const char* name, const std::string& value) {
        return fmt::format("\"{}\":{},", name, json_quoted(value));
      };
      jsonl_->write(fmt::format(
          "{{{}{}\"embedding\":[{}]}}\n", rows.ids.empty() ? "" : member("id", rows.ids[row]),
          member("text", rows.texts[row]), fmt::join(embeddings[i].to_vector(), ",")));
    }
  }
  void commit() { npy_ ? npy_->commit() : jsonl_->commit(); }

 private:
  std::optional<train::NpyWriter> npy_;
  std::optional<AtomicFile> jsonl_;
};

void print_summary(const EncodeOptions& options, std::size_t texts, std::int64_t dimension,
                   double seconds, double tokenizing_s) {
  const double rate = static_cast<double>(texts) / seconds;
  if (options.json)
    return fmt::print("{}\n", Json{{"texts", texts},
                                   {"dimension", dimension},
                                   {"seconds", seconds},
                                   {"tokenizing_s", tokenizing_s},
                                   {"texts_per_s", rate}}
                                  .dump());
  fmt::print("wrote {} embeddings of {} numbers to {} ({} texts/s)\n", texts, dimension,
             options.output.string(), train::format_count(rate));
}

/// By all ranks together, where a launcher started several; rank 0 reads, writes and prints.
void encode(const EncodeOptions& options, const comm::Group& world) {
  const bool first = world.rank() == 0;
  train::TextsById rows = first ? read_rows(options.input) : train::TextsById();
  rows.texts = share(std::move(rows.texts), world);
  const std::span<const std::string> texts = rows.texts;
  const models::SentenceEncoder model = open_model(options.model, first);
  truncate(model, options.truncate_dim);
  const std::int64_t dimension = model.encoded_dimension();
  std::optional<Sink> sink;
  if (first) sink.emplace(options.output, texts.size(), dimension);
  const double start = steady_seconds();
  double tokenizing_s = 0;
  models::EncodeOptions how = options.how;
  how.tokenizing_s = &tokenizing_s;
  std::size_t begin = 0;
  train::for_each_block(model, texts, how, {}, world, [&](const Tensor& embeddings) {
    if (first) sink->write(rows, begin, embeddings);
    begin += static_cast<std::size_t>(embeddings.size(0));
  });
  if (!first) return;
  sink->commit();
  print_summary(options, texts.size(), dimension, steady_seconds() - start, tokenizing_s);
}

}  // namespace

void add_encode(Command& program) {
  Command& command =
      program.add_command("encode", "Embed each line of a text file, or each row of a table");
  const auto options = std::make_shared<EncodeOptions>();
  command
      .add("INPUT", options->input,
           "A text file, a line each (- reads standard input), or column text of a .csv, "
           ".tsv or .jsonl file; plain, gzip or in a ZIP archive")
      .required = true;
  add_model_options(command, options->model, "A Sentence Transformers folder");
  command.add("--output", options->output, "FILE.npy (rows, dimension) or FILE.jsonl").required =
      true;
  command.add("--batch-tokens", options->how.batch_tokens, Range{1, 1 << 24},
              "Tokens of one forward, about");
  command.add("--prompt-name", options->how.prompt_name,
              "The folder's prompt that goes before each line, instead of its default one");
  command.add("--prompt", options->how.prompt, "The text itself that goes before each line")
      .excludes = {"--prompt-name"};
  add_truncate_dim(command, options->truncate_dim);
  command.add("--json", options->json,
              "Print one JSON object: texts, dimension, seconds (loading apart), "
              "tokenizing_s (of them, rank 0's), texts_per_s");
  add_timeout(command, options->timeout);
  command.run = [options] {
    is_jsonl(options->output);  // or it is refused
    run_launched(options->timeout, [&](const comm::Group& world) {
      if (world.rank() == 0)
        check_output_file("--output", options->output, {{"INPUT", options->input}});
      encode(*options, world);
    });
  };
}

}  // namespace ringlet::cli
