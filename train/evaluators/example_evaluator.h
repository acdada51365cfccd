// Figures of examples that no step trains, for Trainer::add_evaluator: an evaluation data set.
//
//   trainer.add_evaluator(ExampleEvaluator(net, test.count, collate, [&](const DigitBatch& batch) {
//     return Metrics{{"eval_loss", loss(batch).tensor().item<double>()}};
//   }));
#pragma once

#include <functional>
#include <type_traits>
#include <utility>

#include "ringlet/nn/eval_guard.h"
#include "ringlet/train/data/example_loader.h"
#include "ringlet/train/report/metrics.h"

namespace ringlet::train {

/// Ranks share the rows, under every strategy. The module must outlive it.
template <class Batch>
class ExampleEvaluator {
 public:
  using Collate = typename ExampleLoader<Batch>::Collate;
  /// The same figures of every batch, each a mean over its rows.
  using Measure = std::function<Metrics(const Batch& batch)>;

  ExampleEvaluator(nn::Module& module, std::size_t examples, Collate collate, Measure measure,
                   std::size_t batch_size = 64)
      : module_(&module),
        examples_(examples),
        batch_size_(batch_size),
        collate_(std::move(collate)),
        measure_(std::move(measure)) {}

  /// Means over all examples, in evaluation mode and without gradients.
  Metrics operator()(const EvaluationPoint& at) const {
    const autograd::NoGrad no_grad;
    const nn::EvalGuard evaluating(*module_);
    ExampleLoader<Batch> loader(examples_, collate_, {.batch_size = batch_size_, .shuffle = false},
                                at.group);
    Metrics sums;
    for (const Batch& batch : loader) {
      const auto rows = static_cast<double>(loader.share().rows);
      Metrics means = measure_(batch);
      if (sums.empty())
        for (const auto& [name, mean] : means) sums.emplace_back(name, 0);
      RINGLET_CHECK_EQ(means.size(), sums.size(), "[ExampleEvaluator] figures of a batch");
      for (std::size_t i = 0; rows > 0 && i < means.size(); ++i)
        sums[i].second += rows * means[i].second;
    }
    sums = sum_over_ranks(sums, at.group);
    for (auto& [name, sum] : sums) sum /= static_cast<double>(examples_);
    return sums;
  }

 private:
  nn::Module* module_;
  std::size_t examples_, batch_size_;
  Collate collate_;
  Measure measure_;
};

template <class Collate, class Measure>
ExampleEvaluator(nn::Module&, std::size_t, Collate, Measure, std::size_t = 64)
    -> ExampleEvaluator<std::invoke_result_t<Collate, const Rows&>>;

}  // namespace ringlet::train
