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
  std::int64_t number = at.group.rank();
  Tensor all;  // (rows, classes)
  for (const models::PackedBatch& batch : loader) {
    const Tensor scores = logits_(batch.to(device)).tensor().to(Device{}).to(DType::f32);
    if (dataset_->num_labels() > scores.size(1))
      fail_input(dataset_->name(), ": expected labels below ", scores.size(1), ", found ",
                 dataset_->num_labels() - 1);
    if (!all.defined())
      all = zeros({static_cast<std::int64_t>(dataset_->size()), scores.size(1)}, DType::f32,
                  Device{});
    if (loader.share().rows > 0)
      all.slice(number * batch_rows, number * batch_rows + batch.rows).copy_(scores);
    number += at.group.size();
  }
  comm::all_reduce_filled(at.group, all);
  if (const auto row = row_not_finite(all))
    fail_input(dataset_->name(), ": the logits of row ", *row + 1, " are not finite");
  ClassificationMeter meter;
  const auto rows = static_cast<std::int64_t>(dataset_->size());
  for (std::int64_t begin = 0; begin < rows; begin += batch_rows) {
    const std::int64_t end = std::min(begin + batch_rows, rows);
    std::vector<std::int64_t> labels;
    for (std::int64_t i = begin; i < end; ++i)
      labels.push_back(dataset_->label(static_cast<std::size_t>(i)));
    meter.add(all.slice(begin, end), tensor(labels, {end - begin}, Device{}));
  }
  Report report(options_.name);
  report.add_metric("accuracy", meter.accuracy());
  report.add_column("accuracy", meter.accuracy());
  report.write("accuracy_evaluation", at);
  return report;
}

}  // namespace ringlet::train
