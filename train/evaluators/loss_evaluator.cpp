#include "ringlet/train/evaluators/loss_evaluator.h"

#include "ringlet/nn/eval_guard.h"
#include "ringlet/train/evaluators/encode_together.h"

namespace ringlet::train {

LossEvaluator::LossEvaluator(models::Loss& loss, std::shared_ptr<const TextDataset> dataset,
                             const models::Tokenizer& tokenizer, Options options)
    : loss_(&loss),
      dataset_(std::move(dataset)),
      tokenizer_(std::make_shared<const models::Tokenizer>(tokenizer)),
      options_(std::move(options)) {
  if (dataset_->size() == 0) fail_input(dataset_->name(), ": expected rows, found none");
  if (options_.batches.batch_size == 0) fail_input("eval batch size: expected at least 1, found 0");
}

Metrics LossEvaluator::operator()(const EvaluationPoint& at) const {
  const nn::EvalGuard evaluating(*loss_);
  const autograd::NoGrad no_grad;
  const auto size = static_cast<std::int64_t>(options_.batches.batch_size);
  const auto rows = static_cast<std::int64_t>(dataset_->size());
  Tensor sums = zeros({(rows + size - 1) / size, 1}, DType::f32, Device{});  // of each batch
  for_batches_in_turn(
      dataset_, *tokenizer_, options_.batches, at.group,
      [&](const models::PackedBatch& of, std::int64_t number) {
        models::PackedBatch batch = of;
        batch.dataset = options_.loss;
        const double mean = (*loss_)(batch).tensor().item<double>();
        if (number >= 0)
          sums.slice(number, number + 1).fill_(mean * static_cast<double>(batch.rows));
      });
  gather_rows(sums, at.group);
  double sum = 0;
  for (const float batch : sums.to_vector()) sum += batch;
  return {{options_.name, sum / static_cast<double>(rows)}};
}

}  // namespace ringlet::train
