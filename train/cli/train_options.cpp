#include "ringlet/train/cli/train_options.h"

#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <cmath>
#include <filesystem>

#include "ringlet/core/error.h"
#include "ringlet/core/file.h"
#include "ringlet/train/checkpoint.h"
#include "ringlet/train/cli/output.h"

namespace ringlet::cli {
namespace {

namespace fs = std::filesystem;

constexpr double kFineTuningRate = 2e-5;
constexpr double kFromScratchRate = 1e-3;
/// Of the project's own data, if nothing else is asked for.
constexpr std::size_t kOwnDataEpochs = 4;

void add_data_options(CLI::App& command, DataOptions& data) {
  command.add_option("--data", data.data,
                     "FILE or FILE:LOSS, may be repeated; the project's own data if not given");
  command.add_option("--loss", data.loss,
                     std::string("Loss of files that name none: ") + kLossNames +
                         "; by default what their columns call for");
  command.add_option("--eval", data.eval,
                     "Pairs with scores or labels to evaluate on, may be repeated");
  command.add_option("--columns", data.columns,
                     "Renames, in the files that have the column: NAME_IN_FILE=NAME,...");
  command
      .add_option("--num-labels", data.num_labels,
                  fmt::format("Refuse labels from this number on; needed for more than {} classes",
                              kMaxGuessedLabels))
      ->check(CLI::Range(2, 1 << 20));
  add_score_scale(command, data.score_scale);
}

void add_training_options(CLI::App& command, TrainOptions& options) {
  train::TrainingArguments& a = options.arguments;
  constexpr std::int64_t kMany = std::int64_t{1} << 40;
  command
      .add_option("--epochs", a.epochs,
                  fmt::format("1 unless given; {} of the project's own data", kOwnDataEpochs))
      ->check(CLI::Range(1, 1 << 20));
  command.add_option("--max-steps", a.max_steps, "Instead of epochs")->check(CLI::Range(kMany));
  command.add_option("--batch", a.batch_size, "Rows of a step on one device")
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str();
  command
      .add_option("--lr", a.lr,
                  fmt::format("Learning rate; {} for a trained model, {} for a new one",
                              kFineTuningRate, kFromScratchRate))
      ->check(CLI::Range(1e-12, 10.0));
  command.add_option("--warmup", options.warmup, "Steps, or below 1 their share of all")
      ->check(CLI::Range(0.0, 1e12))
      ->capture_default_str();
  command
      .add_option("--schedule", options.schedule, "How the learning rate falls behind the warm-up")
      ->check(CLI::IsMember({"linear", "cosine", "constant"}))
      ->capture_default_str();
  command.add_option("--weight-decay", a.weight_decay, "AdamW's, of all but biases and LayerNorm")
      ->check(CLI::Range(0.0, 10.0))
      ->capture_default_str();
  command.add_option("--clip", a.max_grad_norm, "Global norm of gradients at most; 0: no clipping")
      ->check(CLI::Range(0.0, 1e9))
      ->capture_default_str();
  command
      .add_option("--strategy", options.strategy,
                  std::string("How several devices train together: ") + train::kStrategyNames)
      ->capture_default_str();
  command
      .add_option("--devices", options.devices,
                  "Devices of this machine, each with --batch rows of a step")
      ->check(CLI::Range(1, 1 << 10))
      ->capture_default_str();
  command
      .add_option("--memory-limit", options.memory_limit,
                  "Most that the tensors of each device may take: bytes, or with KiB, MiB or GiB")
      ->transform(CLI::AsSizeValue(/*kb_is_1000=*/false));
  command.add_option("--seed", a.seed, "Of weights, order, dropout and the project's own data")
      ->capture_default_str();
  command.add_option("--dealing", options.dealing, "How batches of several data sets alternate")
      ->check(CLI::IsMember({"round_robin", "proportional"}))
      ->capture_default_str();
  command.add_flag("!--no-shuffle", a.shuffle, "Take the rows of each file in their order");
  command.add_flag("--padded", a.padded, "Pad each column, to see what it costs");
  command.add_option("--save-steps", a.save_steps, "A checkpoint every so many steps")
      ->check(CLI::Range(kMany));
  command.add_option("--eval-steps", a.eval_steps, "Evaluate also every so many steps")
      ->check(CLI::Range(kMany));
}

}  // namespace

bool from_scratch(const TrainOptions& options) { return !folder_exists(options.model.model); }

void add_train_options(CLI::App& command, TrainOptions& options) {
  add_model_options(command, options.model,
                    "A folder, or random weights: tiny, minilm-l6, bert-base or mpnet-base");
  command.add_option("--vocab", options.vocab,
                     "vocab.txt or tokenizer.json of a new model; else learned from the data");
  add_data_options(command, options.data);
  add_training_options(command, options);
  command.add_option("--output", options.arguments.output, "A new or empty folder")
      ->capture_default_str();
  command.add_flag("--resume", options.resume, "Go on from the latest checkpoint in --output");
  command.add_flag("--no-progress", options.no_progress, "Say nothing until the end");
}

void check(const TrainOptions& options, bool restarted) {
  use_device(options.model);
  if (from_scratch(options)) {
    models::EncoderConfig::named(options.model.model);
  } else if (!options.vocab.empty()) {
    fail_input("--vocab ", options.vocab, ": ", options.model.model, " has its own vocabulary");
  }
  if (!options.data.loss.empty()) parse_loss(options.data.loss);
  const fs::path& output = options.arguments.output;
  if (!options.resume && !restarted) return check_new_folder("--output", output);
  check_writable_folder("--output", output);
  if (!train::latest_checkpoint(output) && !restarted)
    fail_input("--resume: there is no checkpoint in ", output.string());
}

void check_devices(const TrainOptions& options, train::Strategy strategy, bool launched) {
  if (launched && options.devices > 1)
    fail_input("--devices ", options.devices, ": the launcher started the ranks already");
  if (launched && (strategy == train::Strategy::none || strategy == train::Strategy::dp))
    fail_input("--strategy ", options.strategy,
               ": this is one of several ranks; expected ddp, zero1, zero2 or fsdp");
  if (strategy == train::Strategy::none && options.devices > 1)
    fail_input("--devices ", options.devices, ": needs a --strategy: ", train::kStrategyNames);
}

train::TrainingArguments training_arguments(const TrainOptions& options, const TrainingData& data) {
  train::TrainingArguments arguments = options.arguments;
  if (arguments.lr == 0) arguments.lr = from_scratch(options) ? kFromScratchRate : kFineTuningRate;
  if (arguments.epochs == 0) arguments.epochs = options.data.data.empty() ? kOwnDataEpochs : 1;
  const bool ratio = options.warmup < 1;
  arguments.warmup_ratio = ratio ? options.warmup : 0;
  arguments.warmup_steps = ratio ? 0 : std::llround(options.warmup);
  arguments.schedule = train::parse_decay(options.schedule);
  arguments.dealing = options.dealing == "proportional" ? train::Dealing::proportional
                                                        : train::Dealing::round_robin;
  arguments.dtype = parse_dtype(options.model.dtype);
  if (options.resume) arguments.resume_from = arguments.output;
  for (const Source& source : data.sources)
    if (source.loss == LossKind::mnrl) arguments.no_duplicates = true;
  return arguments;
}

}  // namespace ringlet::cli
