// `ringlet train`: text in, a trained Sentence Transformers folder out.
#include <fmt/core.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <iostream>
#include <memory>
#include <optional>

#include "ringlet/comm/environment.h"
#include "ringlet/comm/launch.h"
#include "ringlet/core/parallel.h"
#include "ringlet/core/random.h"
#include "ringlet/models/tokenizer/trainer.h"
#include "ringlet/train/checkpoint.h"
#include "ringlet/train/cli/commands.h"
#include "ringlet/train/cli/curves.h"
#include "ringlet/train/cli/exit_code.h"
#include "ringlet/train/cli/interrupt.h"
#include "ringlet/train/cli/model_options.h"
#include "ringlet/train/cli/output.h"
#include "ringlet/train/cli/training_data.h"
#include "ringlet/train/evaluator.h"
#include "ringlet/train/progress.h"
#include "ringlet/train/trainer.h"

namespace ringlet::cli {
namespace {

namespace fs = std::filesystem;

constexpr double kFineTuningRate = 2e-5;
constexpr double kFromScratchRate = 1e-3;
/// Of the project's own data, if nothing else is asked for.
constexpr std::size_t kOwnDataEpochs = 4;

struct Options {
  ModelOptions model;
  DataOptions data;
  std::string vocab;
  train::TrainingArguments arguments{.output = "output", .epochs = 0, .lr = 0};
  double warmup = 0.1;
  std::string schedule = "linear";
  std::string dealing = "round_robin";
  bool resume = false;
  bool no_progress = false;
  std::string strategy = "none";
  int devices = 1;
};

bool from_scratch(const Options& options) { return !fs::is_directory(options.model.model); }

/// Of a new model: --vocab, or learned from the data.
models::Tokenizer new_tokenizer(const Options& options, const TrainingData& data) {
  const models::EncoderConfig config = models::EncoderConfig::named(options.model.model);
  const auto family = config.architecture == models::Architecture::mpnet
                          ? models::TokenizerFamily::kMpnet
                          : models::TokenizerFamily::kBert;
  const fs::path vocab = options.vocab;
  if (vocab.empty())
    return models::train_tokenizer(data.texts(),
                                   {.family = family, .vocab_size = config.vocab_size});
  if (vocab.extension() == ".json") return models::Tokenizer::from_file(vocab);
  return models::Tokenizer::from_vocab(vocab, {.family = family});
}

/// A model of random weights.
models::SentenceEncoder new_model(const Options& options, models::Tokenizer tokenizer) {
  models::EncoderConfig config = models::EncoderConfig::named(options.model.model);
  config.vocab_size = tokenizer.vocab_size();
  config.pad_token_id = tokenizer.special().pad;
  const Device device = use_device(options.model);
  const GeneratorGuard seeded(Generator{options.arguments.seed, 0, 0});
  models::SentenceEncoder encoder(config, std::move(tokenizer));
  encoder.transformer()->to(device);
  apply(options.model, encoder);
  return encoder;
}

/// Everything that can be known to be wrong before a file is read. After a launcher's restart the
/// output folder holds what the attempt before has left.
void check(const Options& options, bool restarted) {
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

void check_devices(const Options& options, train::Strategy strategy, bool launched) {
  if (launched && options.devices > 1)
    fail_input("--devices ", options.devices, ": the launcher started the ranks already");
  if (launched && (strategy == train::Strategy::none || strategy == train::Strategy::dp))
    fail_input("--strategy ", options.strategy,
               ": this is one of several ranks; expected ddp, zero1, zero2 or fsdp");
  if (strategy == train::Strategy::none && options.devices > 1)
    fail_input("--devices ", options.devices, ": needs a --strategy: ", train::kStrategyNames);
}

train::TrainingArguments training_arguments(const Options& options, const TrainingData& data) {
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

/// Guessing among n classes costs ln n.
std::vector<train::Level> guessing_levels(const TrainingData& data) {
  for (const Source& source : data.sources)
    if (source.loss == LossKind::softmax)
      return {{fmt::format("guessing (ln {})", source.dataset->num_labels()),
               std::log(source.dataset->num_labels())}};
  return {};
}

std::string describe(const train::Metrics& metrics) {
  std::string text;
  for (const auto& [name, value] : metrics) text += fmt::format("  {} {:.4f}", name, value);
  return text;
}

/// Runs to the end; or, after SIGINT or SIGTERM on any rank, to the end of the step, saves and
/// throws on all of them.
train::TrainingResult run_training(train::Trainer& trainer, bool show) {
  const InterruptGuard signals;
  fs::path saved;  // the last checkpoint
  train::TrainingResult result;
  {
    train::Progress progress(std::cerr, trainer.total_steps(),
                             {.terminal = ::isatty(STDERR_FILENO) == 1});
    const auto stop_if_told = [&] {
      if (signals.caught()) trainer.stop(/*save=*/true);
    };
    train::TrainerCallbacks callbacks;
    callbacks.on_step = [&](const train::StepReport& at) {
      if (show) progress.step(at.step, at.result.loss, at.result.rows, at.result.tokens);
      stop_if_told();
    };
    callbacks.on_evaluate = [&](const train::EvaluationPoint& at, const train::Metrics& metrics) {
      if (show) progress.note(fmt::format("step {}{}", at.step, describe(metrics)));
      progress.skip_time();
      stop_if_told();
    };
    callbacks.on_save = [&](const fs::path& checkpoint) {
      saved = checkpoint;
      if (show && !signals.caught()) progress.note("saved " + checkpoint.string());
      progress.skip_time();
    };
    trainer.set_callbacks(callbacks);
    result = trainer.train();
  }
  if (result.steps == trainer.total_steps()) return result;
  // Another rank may have been told, and this one not.
  const int signal = signals.caught() ? signals.caught() : SIGTERM;
  throw Interrupted(
      signal,
      fmt::format("{} after step {} of {}: saved {}; --resume goes on from there",
                  signal_name(signal), result.steps, trainer.total_steps(), saved.string()));
}

void add_evaluator(train::Trainer& trainer, std::shared_ptr<const train::TextDataset> dataset,
                   const models::SentenceEncoder& encoder,
                   const std::shared_ptr<models::SoftmaxLoss>& classifier) {
  const std::string name = fs::path(dataset->name()).stem();
  if (dataset->target() == train::Target::score) {
    trainer.add_evaluator(
        [encoder, dev = train::EmbeddingSimilarityEvaluator(*dataset, {.name = name})](
            const auto& at) { return dev.evaluate(encoder, at); });
  } else {
    trainer.add_evaluator(
        [encoder, classifier, dev = train::LabelAccuracyEvaluator(dataset, {.name = name})](
            const auto& at) { return dev.evaluate(*classifier, encoder.tokenizer(), at); });
  }
}

/// What is known before there are ranks.
struct Plan {
  Options options;
  TrainingData data;
  std::optional<models::Tokenizer> tokenizer;  // of a new model
};

/// Trains on this rank; rank 0 shows and writes.
void train_rank(const Plan& plan, const comm::Group& group) {
  const Options& options = plan.options;
  const bool first = group.rank() == 0;
  const models::SentenceEncoder encoder =
      plan.tokenizer ? new_model(options, *plan.tokenizer) : open_model(options.model, first);
  const GeneratorGuard seeded(Generator{options.arguments.seed, 1, 0});  // the losses' heads
  const Losses losses = make_losses(plan.data, encoder);
  const train::TrainingArguments arguments = training_arguments(options, plan.data);
  train::Trainer trainer(*losses.all, plan.data.datasets(), encoder.tokenizer(), arguments, group);
  for (const auto& dataset : plan.data.eval)
    add_evaluator(trainer, dataset, encoder, losses.classifier);

  const train::TrainingResult result = run_training(trainer, first && !options.no_progress);
  const fs::path& output = arguments.output;
  encoder.save(output / "model");
  if (!first) return;
  draw_curves(output / "metrics.jsonl", output / "curves.svg", guessing_levels(plan.data));
  fmt::print(
      "{} steps, mean loss {:.4f}, {} pairs/s; wrote {}: model/, metrics.jsonl, curves.svg\n",
      result.steps, result.loss,
      train::format_count(static_cast<double>(result.rows) / result.seconds), output.string());
}

/// Processors are shared out, unless --threads-per-device says how many each device gets.
void share_processors(const Options& options, int devices) {
  if (options.model.threads == 0)
    set_threads_per_device(std::max(1, threads_per_device() / devices));
}

void train_model(Options options) {
  const train::Strategy strategy = train::parse_strategy(options.strategy);
  const comm::Environment environment = comm::Environment::read();
  const bool launched = environment.world_size > 1;
  const bool restarted = environment.restart_count > 0;
  check(options, restarted);
  if (restarted) options.resume = train::latest_checkpoint(options.arguments.output).has_value();
  check_devices(options, strategy, launched);
  options.arguments.strategy = strategy;
  if (!launched) share_processors(options, options.devices);
  if (strategy == train::Strategy::dp)
    for (int i = 0; i < options.devices; ++i)
      options.arguments.devices.push_back({use_device(options.model).type, i});

  Plan plan{options, read_training_data(options.data), {}};
  if (from_scratch(options)) plan.tokenizer = new_tokenizer(options, plan.data);
  if (launched)
    return comm::run_from_env([&](const comm::Group& world) { train_rank(plan, world); });
  if (strategy == train::Strategy::none || strategy == train::Strategy::dp)
    return train_rank(plan, comm::Group());
  const InterruptGuard signals;
  try {
    comm::launch(
        [&](const comm::Group& group) { train_rank(plan, group); }, options.devices,
        {.ranks = comm::Ranks::processes, .signal = [&] { return signals.caught_alone(); }});
  } catch (const InputError&) {
    throw;
  } catch (const Error& error) {
    if (signals.caught()) throw Interrupted(signals.caught(), error.what());
    throw;
  }
}

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

void add_training_options(CLI::App& command, Options& options) {
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
  command.add_option("--schedule", options.schedule)
      ->check(CLI::IsMember({"linear", "cosine", "constant"}))
      ->capture_default_str();
  command.add_option("--weight-decay", a.weight_decay)
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
  command.add_option("--seed", a.seed)->capture_default_str();
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

void add_train(CLI::App& app) {
  CLI::App* command = app.add_subcommand("train", "Train a sentence encoder");
  const auto options = std::make_shared<Options>();
  add_model_options(*command, options->model,
                    "A folder, or random weights: tiny, minilm-l6, bert-base or mpnet-base");
  command->add_option("--vocab", options->vocab,
                      "vocab.txt or tokenizer.json of a new model; else learned from the data");
  add_data_options(*command, options->data);
  add_training_options(*command, *options);
  command->add_option("--output", options->arguments.output, "A new or empty folder")
      ->capture_default_str();
  command->add_flag("--resume", options->resume, "Go on from the latest checkpoint in --output");
  command->add_flag("--no-progress", options->no_progress);
  command->callback([options] {
    options->data.seed = options->arguments.seed;
    train_model(*options);
  });
}

}  // namespace ringlet::cli
