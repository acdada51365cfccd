#include "ringlet/train/cli/train.h"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <iostream>

#include "ringlet/comm/launcher/signals.h"
#include "ringlet/comm/rows.h"
#include "ringlet/core/io/atomic_folder.h"
#include "ringlet/core/io/file.h"
#include "ringlet/core/tensor/random.h"
#include "ringlet/models/encoder_layer.h"
#include "ringlet/models/transformer.h"
#include "ringlet/train/checkpoint/audit.h"
#include "ringlet/train/checkpoint/resume.h"
#include "ringlet/train/cli/exit_code.h"
#include "ringlet/train/cli/interrupt.h"
#include "ringlet/train/data/bytes.h"
#include "ringlet/train/evaluators/embedding_evaluators.h"
#include "ringlet/train/report/event_file.h"
#include "ringlet/train/report/progress.h"
#include "ringlet/train/report/timeline.h"
#include "ringlet/train/step/trainer_callback.h"

namespace ringlet::cli {
namespace {

namespace fs = std::filesystem;

models::EncoderConfig new_config(const TrainOptions& options, const models::Tokenizer& tokenizer) {
  models::EncoderConfig config = models::EncoderConfig::named(options.model.model);
  config.vocab_size = tokenizer.vocab_size();
  config.pad_token_id = tokenizer.special().pad;
  return config;
}

/// A model of random weights.
models::SentenceEncoder new_model(const TrainOptions& options, models::Tokenizer tokenizer) {
  const models::EncoderConfig config = new_config(options, tokenizer);
  const Device device = use_device(options.model);
  const GeneratorGuard seeded(RandomGenerator{options.arguments.seed, 0, 0});
  models::SentenceEncoder encoder(config, std::move(tokenizer),
                                  options.model.pooling.value_or(models::Pooling::mean),
                                  options.model.normalize);
  encoder.modules()->to(device);
  apply(options.model, encoder);
  return encoder;
}

/// "; 2 ranks over shm, direct"; after a step
std::string describe(const comm::Group& group, Device device) {
  if (group.size() == 1) return "";
  return fmt::format("; {} ranks over {}, {}", group.size(), comm::name(group.transport(device)),
                     comm::name(group.algorithm(device)));
}

std::string describe(const train::Metrics& metrics) {
  std::string text;
  for (const auto& [name, value] : metrics) text += fmt::format("  {} {:.4f}", name, value);
  return text;
}

/// "0.8123", or "nli 0.8123, sts 0.0312": the mean over different losses is none of them.
std::string mean_loss(const train::TrainingResult& result) {
  if (result.dataset_losses.empty()) return fmt::format("{:.4f}", result.loss);
  std::string text;
  for (const auto& [name, loss] : result.dataset_losses)
    text += fmt::format("{}{} {:.4f}", text.empty() ? "" : ", ", name, loss);
  return text;
}

/// Runs to the end; or, after a signal of InterruptGuard on any rank, to the end of the step, saves
/// and throws on all of them. `first`: this rank prints.
train::TrainingResult run_training(train::Trainer& trainer, bool first, bool show) {
  const InterruptGuard signals;
  fs::path saved;  // the last checkpoint
  train::TrainingResult result;
  {
    train::Progress progress(
        std::cerr, trainer.total_steps(),
        {.terminal = ::isatty(fileno(stderr)) == 1, .datasets = trainer.task().dataset_names()});
    const auto stop_if_told = [&] {
      if (signals.caught()) trainer.stop(/*save=*/true);
    };
    train::TrainerCallback callbacks;
    callbacks.on_step_end = [&](const train::StepReport& at) {
      const train::StepResult& step = at.result;
      if (show) progress.step(at.step, step.loss, step.rows, step.tokens, step.dataset);
      if (first && at.epoch == std::floor(at.epoch)) {
        const std::string line =
            epoch_end(trainer.task(), static_cast<std::size_t>(std::llround(at.epoch)));
        if (!line.empty()) progress.note(line);
      }
      stop_if_told();
    };
    callbacks.on_evaluate = [&](const train::EvaluationReport& found) {
      if (show) progress.note(fmt::format("step {}{}", found.at.step, describe(found.metrics)));
      progress.skip_time();
      stop_if_told();
    };
    callbacks.on_save = [&](const fs::path& checkpoint) {
      saved = checkpoint;
      if (show && !signals.caught()) progress.note("saved " + checkpoint.string());
      progress.skip_time();
    };
    callbacks.on_note = [&](const std::string& line) { progress.note(line); };
    trainer.add_callback(callbacks);
    result = trainer.train();
  }
  if (result.steps == trainer.total_steps() || !result.saved_at_stop) return result;
  // Another rank may have been told, and this one not.
  const int signal = signals.caught() ? signals.caught() : SIGTERM;
  throw Interrupted(
      signal,
      fmt::format("{} after step {} of {}: saved {}; --resume goes on from there",
                  comm::signal_name(signal), result.steps, trainer.total_steps(), saved.string()));
}

/// The names of the evaluator's figures, as far as they are known before it runs.
std::vector<std::string> figures_of(const EvaluationData& data,
                                    const models::SentenceEncoder& encoder) {
  const auto* evaluator = data.evaluator.get();
  if (data.label_accuracy) return {data.name + "_accuracy"};
  if (!dynamic_cast<const train::EmbeddingSimilarityEvaluator*>(evaluator)) return {};
  const std::string ending = '_' + encoder.sentence_config().similarity_fn_name;
  return {data.name + "_pearson" + ending, data.name + "_spearman" + ending};
}

/// The losses of the evaluation data for which a loss is trained.
void add_eval_losses(train::Trainer& trainer, const TrainingData& data) {
  train::Datasets datasets;
  std::vector<std::size_t> like;
  for (const EvaluationData& eval : data.eval) {
    if (!eval.source) continue;
    datasets.push_back(eval.dataset);
    like.push_back(*eval.source);
  }
  if (!datasets.empty()) trainer.add_eval_datasets(datasets, like);
}

/// "ddp", or in a mesh "ddp, pipe 1, tensor 0": the rank's places along these axes.
std::string timeline_title(const train::TrainingArguments& arguments, const comm::Group& group) {
  const train::MeshShape mesh = arguments.mesh.over(group.size());
  const int rank = group.rank();
  return str(train::kStrategies(arguments.strategy),
             mesh.pipe > 1 ? str(", pipe ", mesh.pipe_place(rank)) : "",
             mesh.tensor > 1 ? str(", tensor ", mesh.tensor_place(rank)) : "");
}

/// The options that repeat the run in another folder.
std::vector<std::string> replay_options(const TrainOptions& options, const comm::Group& group) {
  std::vector<std::string> words;
  for (const auto& [name, value] : options.given) {
    if (std::ranges::count(kNotReplayed, name) || name == "--devices") continue;
    if (value.empty())  // --prompt ''
      words.insert(words.end(), {name, value});
    else
      words.push_back(name + '=' + value);
  }
  const auto devices =
      std::max(static_cast<std::size_t>(group.size()), options.arguments.devices.size());
  if (devices > 1) words.push_back(str("--devices=", devices));
  return words;
}

std::string wrote_timeline(const TrainOptions& options) {
  if (options.timeline.empty()) return "";
  const train::TimelineFiles files(options.timeline);
  return str("; timeline: ", files.trace.string(), ", ", files.drawing.string());
}

}  // namespace

void check_random_weights(const TrainPlan& plan) {
  const TrainOptions& options = plan.options;
  if (options.memory_limit == 0 || !plan.tokenizer) return;
  const models::BlankWeights without_memory;
  const auto blank = models::Transformer::create(new_config(options, *plan.tokenizer));
  std::size_t need = 0;
  for (const nn::Parameter& parameter : blank->parameters()) need += parameter.tensor().nbytes();
  if (need > options.memory_limit)
    fail_input("--memory-limit: the random weights of ", options.model.model, " need ", need,
               " bytes, whole on each rank before a strategy shards them; expected at least that, ",
               "found ", options.memory_limit);
}

KeptTraining new_training(TrainPlan plan, const comm::Group& group) {
  const TrainOptions& options = plan.options;
  models::SentenceEncoder encoder = plan.tokenizer ? new_model(options, *plan.tokenizer)
                                                   : open_model(options.model, group.rank() == 0);
  // Once: the plan may begin another training.
  set_teacher_targets(plan.data, std::exchange(plan.options.data.teacher, ""), encoder, group);
  const GeneratorGuard seeded(RandomGenerator{options.arguments.seed, 1, 0});  // the losses' heads
  Losses losses = make_losses(plan.data, options.data.losses, encoder);
  return {std::move(plan), std::move(encoder), std::move(losses), {}};
}

namespace {

/// The kept training, if the ranks agree on one, or a new one.
KeptTraining begin_training(TrainPlan plan, const comm::Group& group,
                            std::optional<KeptTraining>& kept) {
  // A rank has none if its error came before the first step.
  const std::vector<std::int64_t> have = comm::all_gather_count(group, kept ? 1 : 0);
  if (!std::ranges::count(have, 0) &&
      train::agree_on_snapshot(kept->snapshot, *kept->losses.all, group)) {
    if (kept->snapshot->holders.empty()) return *std::exchange(kept, {});
    std::optional<train::Snapshot> snapshot = std::move(kept->snapshot);
    plan = std::move(kept->plan);  // with the teacher's targets
    kept.reset();                  // the old module's memory, before the new one's
    KeptTraining fresh = new_training(std::move(plan), group);
    fresh.snapshot = std::move(snapshot);
    return fresh;
  }
  TrainOptions& options = plan.options;
  if (std::ranges::count(have, 1)) {
    const auto latest = train::latest_checkpoint(options.arguments.output_dir);
    options.resume = latest.has_value();
    const bool no_shards = options.arguments.redundancy > 0 && !std::ranges::count(have, 0);
    if (group.rank() == 0)
      fmt::print(stderr, "{}going on from {}\n",
                 no_shards ? "--redundancy 1: no update has all its shards on these ranks; " : "",
                 latest ? latest->filename().string()
                        : "the start: there is no checkpoint (--save-steps)");
  }
  kept.reset();
  return new_training(std::move(plan), group);
}

/// Writes the model. Where ranks may be lost all wait for it: the others could write it as well.
void save_trained(const KeptTraining& training, const comm::Group& group,
                  const train::TrainingArguments& arguments, const train::TrainingResult& result) {
  const TrainPlan& plan = training.plan;
  const Losses& losses = training.losses;
  const fs::path& output = arguments.output_dir;
  const bool first = group.rank() == 0;
  const InterruptGuard signals;  // one would leave a part of the folder
  if (first)                     // of a run that was killed here
    remove_unfinished(
        output, [](const std::string& name) { return name == "model" || name == "curves.svg"; });
  training.encoder.save(output / "model",
                        first ? card_text(plan, training.encoder, losses, arguments, result) : "");
  if (losses.classifier) save_head(*losses.classifier, output / "model");
  if (first) draw_curves(output, plan.data);
  if (group.options().elastic) group.barrier();
}

/// `goes_on`: in a later world than the first.
void train_and_save(KeptTraining& training, const comm::Group& group, bool goes_on) {
  const TrainPlan& plan = training.plan;
  const models::SentenceEncoder& encoder = training.encoder;
  const Losses& losses = training.losses;
  const bool first = group.rank() == 0;
  const TrainOptions& options = plan.options;
  const GeneratorGuard seeded(RandomGenerator{options.arguments.seed, 1, 0});
  train::TrainingArguments arguments = training_arguments(options, plan.data);
  arguments.prompts = read_prompts(options.prompts, encoder);
  train::Trainer trainer(*losses.all, plan.data.datasets(), encoder.tokenizer(), arguments, group);
  add_eval_losses(trainer, plan.data);
  for (EvaluationData& eval : training.plan.data.eval) {
    eval.set_classifier(losses.classifier, arguments.per_device_eval_batch_size);
    if (!eval.evaluator) continue;
    trainer.add_evaluator([&encoder, evaluator = eval.evaluator](
                              const auto& at) { return evaluator->evaluate(encoder, at); },
                          figures_of(eval, encoder));
  }

  if (options.early_stopping.patience > 0)
    trainer.add_callback(train::early_stopping(trainer, options.early_stopping));

  if (!options.timeline.empty())
    trainer.add_callback(train::record_timeline(train::TimelineFiles(options.timeline),
                                                encoder.device(), group,
                                                timeline_title(arguments, group)));

  const bool show = first && !options.no_progress;
  if (options.replay_to == 0)
    trainer.add_callback({.on_train_begin = [&](const auto&) {
      if (goes_on) return;
      if (first && options.data.data.empty() && !options.resume)
        fmt::print(stderr, "no --data: trains on generated sentences\n");
      if (first) print_reports(plan.data.reports());
      if (show && !options.resume && plan.data.sources.size() > 1)
        fmt::print(stderr, "{}\n", epoch_plan(trainer.task()));
      if (show) fmt::print(stderr, "{}", trainer.header());
    }});
  const fs::path& output = arguments.output_dir;
  const bool audited = first && arguments.audit_steps > 0;
  if (options.replay_to > 0)
    trainer.add_callback({.on_step_end = [&](const train::StepReport& at) {
      if (at.step >= options.replay_to) trainer.stop();
    }});
  else if (audited)
    trainer.add_callback({.on_train_begin = [&](const auto&) {
      train::AuditLog log(output / train::kAudit);
      if (goes_on && log.has("options")) return;
      log.add({{"step", 0},
               {"options", replay_options(options, group)},
               {"read_once", train::kept_inputs()}});
    }});
  trainer.set_snapshot(std::exchange(training.snapshot, {}));
  train::TrainingResult result;
  try {
    result = run_training(trainer, first, show);
    if (options.replay_to == 0) save_trained(training, group, arguments, result);
  } catch (const Error&) {
    training.snapshot = trainer.take_snapshot();
    throw;
  }
  if (options.replay_to > 0) {
    if (audited)
      fmt::print("step {} replayed; digests took {:.2f} % of the time\n", result.steps,
                 100 * result.audit_seconds / (result.audit_seconds + result.seconds));
    return;
  }
  if (show && result.steps < trainer.total_steps())
    fmt::print(stderr, "stopped early, after step {} of {}\n", result.steps, trainer.total_steps());
  if (show && arguments.load_best_model_at_end && result.best)
    fmt::print(
        stderr, "loaded the best model, of step {}: {} {:.4f}\n", result.best->step,
        arguments.metric_for_best_model.empty() ? "eval_loss" : arguments.metric_for_best_model,
        result.best->metric);
  if (!first) return;
  if (audited)
    train::AuditLog(output / train::kAudit)
        .add({{"step", result.steps}, {"model", sha256(MappedFile(output / kWeights).text())}});
  if (result.lone_rows > 0)
    fmt::print(stderr,
               "{} of the rows trained lay alone in their batch, where their loss finds nothing to "
               "compare: they changed nothing\n",
               result.lone_rows);
  fmt::print(
      "{} steps, mean loss {}, {}{}; wrote {}: model/, metrics.jsonl, curves.svg{}{}{}{}\n",
      result.steps, mean_loss(result),
      result.rows == 0  // all were trained before
          ? "none left to train"
          : train::format_count(static_cast<double>(result.rows) / result.seconds) + " pairs/s",
      describe(group, encoder.device()), output.string(),
      path_exists(output / "eval") ? ", eval/" : "", audited ? str(", ", train::kAudit) : "",
      arguments.tensorboard ? str(", ", train::kEventFile, "*") : "", wrote_timeline(options));
}

}  // namespace

void train_rank(TrainPlan plan, const comm::Group& group, std::optional<KeptTraining>& kept) {
  const bool goes_on = kept.has_value();
  KeptTraining training = begin_training(std::move(plan), group, kept);
  try {
    train_and_save(training, group, goes_on);
  } catch (const Error&) {
    kept = std::move(training);
    throw;
  }
}

}  // namespace ringlet::cli
