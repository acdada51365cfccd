#include "ringlet/train/evaluators/classification.h"

#include <algorithm>

#include "ringlet/comm/rows.h"
#include "ringlet/nn/eval_guard.h"
#include "ringlet/train/data/loader.h"
#include "ringlet/train/evaluators/encode_together.h"

namespace ringlet::train {

LabelAccuracyEvaluator::LabelAccuracyEvaluator(std::shared_ptr<const TextDataset> dataset,
                                               nn::Module& module, Logits logits, Options options)
    : options_(std::move(options)),
      dataset_(std::move(dataset)),
      module_(module),
      logits_(std::move(logits)) {
  if (dataset_->target() != Target::label || dataset_->size() == 0)
    fail_input(dataset_->name(), ": expected rows with a label");
}

Report LabelAccuracyEvaluator::report(const models::SentenceEncoder& model,
                                      const EvaluationPoint& at) const {
  const nn::EvalGuard mode(module_);
  const autograd::NoGrad no_grad;
  const Device device = module_.device();
  const auto batch_rows = static_cast<std::int64_t>(options_.batch_size);
  Loader<models::PackedBatch> loader(
      dataset_->size(), collate_texts(dataset_, model.tokenizer(), {}),
      {.batch_size = options_.batch_size, .shuffle = false}, at.group, kAhead);
  ClassificationMeter meter;
  const auto rows = static_cast<std::int64_t>(dataset_->size());
  std::int64_t first = at.group.rank() * batch_rows, bad = rows;
  for (const models::PackedBatch& batch : loader) {
    const Tensor scores = logits_(batch.to(device)).tensor().to(Device{}).to(DType::f32);
    if (dataset_->num_labels() > scores.size(1))
      fail_input(dataset_->name(), ": expected labels below ", scores.size(1), ", found ",
                 dataset_->num_labels() - 1);
    if (const auto row = row_not_finite(scores))
      bad = std::min(bad, first + static_cast<std::int64_t>(*row));
    if (loader.share().rows > 0) meter.add(scores, batch.labels);
    first += at.group.size() * batch_rows;
  }
  meter.all_reduce(at.group);
  bad = std::ranges::min(comm::all_gather_count(at.group, bad));
  if (bad < rows) fail_input(dataset_->name(), ": the logits of row ", bad + 1, " are not finite");
  Report report(options_.name);
  report.add_metric("accuracy", meter.accuracy());
  report.add_column("accuracy", meter.accuracy());
  report.write("accuracy_evaluation", at);
  return report;
}

}  // namespace ringlet::train
