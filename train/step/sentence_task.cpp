#include "ringlet/train/step/sentence_task.h"

#include "ringlet/core/base/quote.h"
#include "ringlet/core/base/setting.h"
#include "ringlet/core/io/file.h"
#include "ringlet/models/modules/sentence_modules.h"
#include "ringlet/models/tokenizer/tokenizer_json.h"
#include "ringlet/models/transformer.h"
#include "ringlet/train/optimizer/optimizer.h"
#include "ringlet/train/step/step_graphs.h"

namespace ringlet::train {

void set_transformers(nn::Module& module, DType dtype, bool gradient_checkpointing) {
  if (dtype != DType::f32 && dtype != DType::bf16)
    fail_setting("dtype", ": expected f32 or bf16, found ", dtype);
  bool found = false;
  module.visit([&](const std::string&, nn::Module& below) {
    if (auto* transformer = dynamic_cast<models::Transformer*>(&below)) {
      transformer->set_compute_dtype(dtype);
      if (gradient_checkpointing) transformer->set_checkpointing(true);
      found = true;
    }
  });
  if (dtype != DType::f32 && !found)
    fail_setting("dtype", ": ", dtype, " is for transformers, and this module holds none");
  if (gradient_checkpointing && !found)
    fail_setting("gradient_checkpointing", " is for transformers, and this module holds none");
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
    : SentenceTask(loss,
                   std::make_unique<Loader<models::PackedBatch>>(
                       datasets, tokenizer, with_whole_steps(options, loss, datasets.size())),
                   tokenizer, [&loss](const models::PackedBatch& batch) { return loss(batch); }) {
  check_prompts(datasets, options.prompts);
  for (std::size_t i = 0; i < datasets.size(); ++i) check_rows(i);
}

SentenceTask::SentenceTask(models::Loss& loss, std::unique_ptr<Loader<models::PackedBatch>> loader,
                           const models::Tokenizer& tokenizer, LossHook hook)
    : Task(loss, std::move(loader), std::move(hook)), loss_(loss), tokenizer_(tokenizer) {}

void SentenceTask::check_rows(std::size_t dataset) const {
  const TextDataset& data = *loader().datasets()[dataset];
  const LoaderOptions& options = loader().options();
  const std::size_t step = options.rows_per_step();
  const bool whole = loss_.spans_ranks(dataset);
  const auto rows = static_cast<std::int64_t>(whole ? step : options.batch_size);
  const auto columns = static_cast<std::int64_t>(data.columns().size());
  if (const std::int64_t least = loss_.min_rows(dataset, columns); rows < least)
    fail_setting("batch_size", ": expected at least ", least, " for the loss of ", data.name(),
                 ", found ", rows);
  if (options.batch_sampler == BatchSampler::group_by_label && !whole && step > options.batch_size)
    fail_setting(
        "batch_sampler", " group_by_label: the loss of ", data.name(), " would see ",
        step / options.batch_size,
        " parts of a step, which separate the rows of a label; expected one device and one "
        "batch a step, or a loss with global negatives");
}

UpdateArguments SentenceTask::arguments() const {
  UpdateArguments all = loader().arguments();
  for (std::size_t i = 0; i < loader().datasets().size(); ++i)
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

void SentenceTask::count(StepResult& result) const {
  Task::count(result);
  result.tokens += batch().real_tokens;
  result.lone_rows += lone_rows(batch());
  result.dataset = batch().dataset;
}

Tensor SentenceTask::run() {
  if (pipeline_) return run_pipeline();
  const auto work = [&](const models::PackedBatch& on_device) {
    const Tensor value = run_eagerly(on_device);
    check_reached(on_device);
    return value;
  };
  if (!graphs_) return work(batch());
  const models::Loss& loss = loss_.loss_of(batch());
  if (loss.is_capturable()) return graphs_->run(batch(), work);
  return graphs_->run_eagerly(batch(), work,
                              str(loss.kind(), " does not say that it can be captured"));
}

Tensor SentenceTask::run_pipeline() {
  if (micro_batch_.value_or(0) == 0) of_pipeline_.clear();
  micro_batch_.reset();  // the batches run together
  of_pipeline_.push_back(batch());
  if (!loader().share().ends_step) return {};
  const double loss = pipeline_->step(std::exchange(of_pipeline_, {}));
  check_reached(batch());
  return full({1}, loss, DType::f64, Device{});
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
  RINGLET_CHECK(names.empty(), "[trainer] the loss of ", loader().datasets()[batch.dataset]->name(),
                " gives no gradient to: ", names);
}

ExampleEvaluator<models::PackedBatch> SentenceTask::loss_evaluator(
    std::shared_ptr<const TextDataset> dataset, std::size_t like, std::string name,
    std::size_t batch_size) const {
  const Datasets& datasets = loader().datasets();
  RINGLET_CHECK(like < datasets.size(), "[trainer] training data set ", like, " of ",
                datasets.size());
  if (dataset->columns().size() != datasets[like]->columns().size() ||
      dataset->target() != datasets[like]->target())
    fail_input(dataset->name(), ": expected columns like those of ", datasets[like]->name());
  if (dataset->size() == 0) fail_input(dataset->name(), ": expected rows, found none");
  if (batch_size == 0) fail_setting("per_device_eval_batch_size", ": expected at least 1, found 0");
  const auto measure = [&loss = loss_, like, name](models::PackedBatch batch) {
    batch.dataset = like;
    return Metrics{{name, loss(batch).tensor().item<double>()}};
  };
  return {loss_,   dataset->size(), collate_texts(dataset, tokenizer_, loader().options()),
          measure, batch_size,      kAhead};
}

}  // namespace ringlet::train
