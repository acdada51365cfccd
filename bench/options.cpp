#include "options.h"

#include <CLI/CLI.hpp>

#include "ringlet/core/error.h"

namespace ringlet::bench {

std::optional<ThroughputOptions> parse_throughput(int argc, char** argv) {
  ThroughputOptions o;
  o.histogram = RINGLET_BENCH_DIR "/data/snli_lengths.json";
  std::string dtype = "f32";
  CLI::App app{"Pairs per second of a training step: the table's rows"};
  app.add_option("--strategy", o.strategy, "how the step is run")
      ->check(CLI::IsMember({"none"}))
      ->capture_default_str();
  app.add_option("--model", o.model, "mpnet-base, bert-base, minilm-l6, tiny or a folder")
      ->capture_default_str();
  app.add_option("--batch", o.batch, "pairs per device and step")
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str();
  app.add_option("--max-length", o.max_length, "tokens of a sentence")
      ->check(CLI::Range(1, 1 << 16))
      ->capture_default_str();
  app.add_option("--steps", o.steps, "timed steps per round")->check(CLI::Range(1, 1 << 20));
  app.add_option("--rounds", o.rounds, "rounds, interleaved over strategies")
      ->check(CLI::Range(1, 1000));
  app.add_option("--warmup", o.warmup, "steps before the first round, not timed")
      ->check(CLI::Range(0, 1000));
  app.add_option("--dtype", dtype, "f32 or bf16")->check(CLI::IsMember({"f32", "bf16"}));
  app.add_option("--histogram", o.histogram, "lengths to draw batches from");
  app.add_option("--data", o.data, "train on these files instead, FILE or FILE:LOSS");
  app.add_flag("--padded", o.padded, "pad every sentence to the longest of its column");
  app.add_option("--recipe", o.recipe,
                 "reference: padded, one forward per column, round robin, as Sentence Transformers")
      ->check(CLI::IsMember({"ringlet", "reference"}));
  app.add_option("--threads-per-device", o.threads, "threads of each cpu device")
      ->check(CLI::Range(1, 1024));
  app.add_option("--json", o.json, "write the rows to this file");
  app.add_option("--svg", o.svg, "draw the rows as bars to this file");
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp& help) {
    app.exit(help);
    return std::nullopt;
  } catch (const CLI::ParseError& error) {
    fail_input(error.what());
  }
  o.dtype = parse_dtype(dtype);
  o.per_column = o.recipe == "reference";
  o.padded = o.padded || o.recipe == "reference";
  return o;
}

}  // namespace ringlet::bench
