#include "ringlet/train/sentence_task.h"

#include <optional>

#include "ringlet/core/base/quote.h"
#include "ringlet/core/base/setting.h"
#include "ringlet/core/device/wait_observer.h"
#include "ringlet/core/io/sha256.h"
#include "ringlet/models/modules/sentence_modules.h"
#include "ringlet/models/tokenizer/tokenizer_json.h"
#include "ringlet/models/transformer.h"
#include "ringlet/train/data/same_rows.h"
#include "ringlet/train/optimizer/optimizer.h"
#include "ringlet/train/parallel/no_sync.h"
#include "ringlet/train/report/timeline.h"
#include "ringlet/train/step/step_graphs.h"

namespace ringlet::train {

void set_transformers(nn::Module& module, DType dtype, bool gradient_checkpointing) {
  if (dtype != DType::f32 && dtype != DType::bf16)
    fail_input("dtype: expected f32 or bf16, found ", dtype);
  bool found = false;
  module.visit([&](const std::string&, nn::Module& below) {
    if (auto* transformer = dynamic_cast<models::Transformer*>(&below)) {
      transformer->set_compute_dtype(dtype);
      if (gradient_checkpointing) transformer->set_checkpointing(true);
      found = true;
    }
  });
  if (dtype != DType::f32 && !found)
    fail_input("dtype: ", dtype, " is for transformers, and this module holds none");
  if (gradient_checkpointing && !found)
    fail_input("gradient_checkpointing is for transformers, and this module holds none");
}

namespace {

LoaderOptions with_whole_steps(LoaderOptions options, const models::Loss& loss,
                               std::size_t datasets) {
  for (std::size_t i = 0; i < datasets; ++i) options.whole_steps.push_back(loss.spans_ranks(i));
  return options;
}

void check_prompts(const Datasets& datasets, const Prompts& prompts) {
  std::set<std::string> columns;
  for (const auto& dataset : datasets)
    columns.insert(dataset->columns().begin(), dataset->columns().end());
  std::string names;
  for (const std::string& column : columns) names += (names.empty() ? "" : ", ") + column;
  for (const auto& [column, prompt] : prompts)
    if (!column.empty() && !columns.contains(column))
      fail_input("prompts (--prompt, --prompt-name): no data set has a column ", quote(column),
                 "; expected one of ", names);
}

}  // namespace

SentenceTask::SentenceTask(models::Loss& loss, Datasets datasets,
                           const models::Tokenizer& tokenizer, LoaderOptions options)
    : loss_(loss),
      tokenizer_(tokenizer),
      loader_(datasets, tokenizer, with_whole_steps(options, loss, datasets.size())) {
  check_prompts(loader_.datasets(), options.prompts);
  for (std::size_t i = 0; i < loader_.datasets().size(); ++i) check_rows(i);
}

void SentenceTask::check_rows(std::size_t dataset) const {
  const TextDataset& data = *loader_.datasets()[dataset];
  const LoaderOptions& options = loader_.options();
  const std::size_t step = options.rows_per_step();
  const bool whole = loss_.spans_ranks(dataset);
  const auto rows = static_cast<std::int64_t>(whole ? step : options.batch_size);
  const auto columns = static_cast<std::int64_t>(data.columns().size());
  if (const std::int64_t least = loss_.min_rows(dataset, columns); rows < least)
    fail_input("batch size (--batch): expected at least ", least, " for the loss of ", data.name(),
               ", found ", rows);
  if (options.batch_sampler == BatchSampler::group_by_label && !whole && step > options.batch_size)
    fail_setting(
        "batch_sampler", " group_by_label: the loss of ", data.name(), " would see ",
        step / options.batch_size,
        " parts of a step, which separate the rows of a label; expected one device and one "
        "batch a step, or a loss with global negatives");
}

UpdateArguments SentenceTask::arguments() const {
  UpdateArguments all = loader_.arguments();
  for (std::size_t i = 0; i < loader_.datasets().size(); ++i)
    all[i == 0 ? "--loss" : str("--loss ", i + 1)] = loss_.describe(i);
  loss_.visit([&](const std::string&, nn::Module& below) {
    if (const auto* encoder = dynamic_cast<const models::SentenceModules*>(&below))
      all["encoder (--model, --pooling, --normalize)"] = encoder->describe();
  });
  const models::TokenizerModel& tokenizer = tokenizer_.model();
  all["tokenizer (--model, --vocab)"] =
      "SHA-256 " + short_sha256(models::dump_tokenizer_json(tokenizer, 0) +
                                models::dump_tokenizer_config(tokenizer, 0));
  return all;
}

std::size_t SentenceTask::steps_per_epoch(std::size_t epoch) const {
  return loader_.sampler().steps_per_epoch(epoch);
}

StepResult SentenceTask::step() {
  StepResult result;
  std::vector<models::PackedBatch> of_pipeline;
  std::size_t micros = 1;
  micro_batch_.reset();  // of a step that threw
  for (std::size_t micro = 0; micro < micros; ++micro) {
    if (micro > 0 && !pipeline_) micro_batch_ = micro;
    const double waited = loader_.seconds_waited();
    const models::PackedBatch& batch = next();
    result.data_seconds += loader_.seconds_waited() - waited;
    micros = loader_.batches_per_step(batch.dataset);
    if (pipeline_) {
      of_pipeline.push_back(batch);
    } else {
      if (micros > 1) micro_batch_ = micro;  // the first one, too
      check_same_rows(same_rows_, rank_, {&batch, 1}, micro);
      std::optional<NoSync> no_sync;
      if (micro + 1 < micros) no_sync.emplace(pause_);
      // Each value is its part of the mean over the step's global batch.
      add_loss(run(batch));
    }
    result.rows += batch.rows;
    result.tokens += batch.real_tokens;
    result.lone_rows += lone_rows(batch);
    result.dataset = batch.dataset;
  }
  micro_batch_.reset();
  if (pipeline_) {
    check_same_rows(same_rows_, rank_, of_pipeline);
    const models::PackedBatch last = of_pipeline.back();
    add_loss(full({1}, pipeline_->step(std::move(of_pipeline)), DType::f64, Device{}));
    check_reached(last);
  }
  return result;
}

const models::PackedBatch& SentenceTask::next() {
  const TimelinePhase phase("data");
  const ObservedWait observed("data");
  const models::PackedBatch* batch = loader_.next();
  return batch ? *batch : *loader_.next();  // the first of the next epoch
}

bool SentenceTask::use_graphs(std::shared_ptr<StepGraphs> graphs) {
  graphs_ = std::move(graphs);
  return true;
}

Variable SentenceTask::forward(const models::PackedBatch& on_device) {
  const TimelinePhase phase("forward");
  return loss_(on_device);
}

// Forward and backward; the loss, ().
Tensor SentenceTask::run(const models::PackedBatch& batch) {
  const auto work = [&](const models::PackedBatch& on_device) {
    const Variable value = forward(on_device);
    const TimelinePhase phase("backward");
    value.backward();
    check_reached(on_device);
    return value.tensor();
  };
  if (!graphs_) return work(batch);
  const models::Loss& loss = loss_.loss_of(batch);
  if (loss.is_capturable()) return graphs_->run(batch, work);
  return graphs_->run_eagerly(batch, work,
                              str(loss.kind(), " does not say that it can be captured"));
}

std::int64_t SentenceTask::lone_rows(const models::PackedBatch& batch) const {
  const std::int64_t least = loss_.min_rows(batch.dataset, batch.columns);
  if (loss_.spans_ranks(batch.dataset)) return batch.global_rows < least ? batch.rows : 0;
  if (batch.device_rows.empty()) return batch.rows < least ? batch.rows : 0;
  std::int64_t lone = 0;
  for (const std::int64_t rows : batch.device_rows) lone += rows < least ? rows : 0;
  return lone;
}

void SentenceTask::check_reached(const models::PackedBatch& batch) {
  if (!checked_.insert(batch.dataset).second) return;
  std::string names;
  for (const auto& [name, parameter] : loss_.loss_of(batch).named_parameters())
    if (parameter.requires_grad() && !parameter.grad().defined())
      names += (names.empty() ? "" : ", ") + name;
  RINGLET_CHECK(names.empty(), "[trainer] the loss of ", loader_.datasets()[batch.dataset]->name(),
                " gives no gradient to: ", names);
}

std::vector<std::string> SentenceTask::dataset_names() const {
  return short_names(loader_.datasets());
}

std::vector<EpochRows> SentenceTask::epoch_rows(std::size_t epoch) const {
  const std::vector<std::size_t> used = loader_.sampler().rows_per_epoch(epoch);
  std::vector<EpochRows> rows;
  for (std::size_t i = 0; i < used.size(); ++i)
    rows.push_back({used[i], loader_.datasets()[i]->size()});
  return rows;
}

LossEvaluator SentenceTask::loss_evaluator(std::shared_ptr<const TextDataset> dataset,
                                           std::size_t like, std::string name,
                                           std::size_t batch_size) const {
  RINGLET_CHECK(like < loader_.datasets().size(), "[trainer] training data set ", like, " of ",
                loader_.datasets().size());
  const TextDataset& trained = *loader_.datasets()[like];
  if (dataset->columns().size() != trained.columns().size() ||
      dataset->target() != trained.target())
    fail_input(dataset->name(), ": expected columns like those of ", trained.name());
  return {loss_,
          std::move(dataset),
          tokenizer_,
          {.name = std::move(name),
           .loss = like,
           .batches = {batch_size, loader_.options().max_length, loader_.options().padded,
                       loader_.options().prompts}}};
}

}  // namespace ringlet::train
