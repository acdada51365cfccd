// Figures of rows that no step trains, for Trainer::add_evaluator: an evaluation data set.
//
//   trainer.add_evaluator(ExampleEvaluator(net, test.count, collate, [&](const DigitBatch& batch) {
//     return Metrics{{"eval_loss", loss(batch).tensor().item<double>()}};
//   }));
#pragma once

#include <functional>
#include <type_traits>
#include <utility>

#include "ringlet/comm/rows.h"
#include "ringlet/nn/eval_guard.h"
#include "ringlet/train/data/loader.h"
#include "ringlet/train/report/metrics.h"

namespace ringlet::train {

/// Ranks share the rows, under every strategy. The module must outlive it. collate_texts() makes
/// batches of text.
template <class Batch>
class ExampleEvaluator {
 public:
  /// The same figures of every batch, each a mean over its rows.
  using Measure = std::function<Metrics(const Batch& batch)>;

  ExampleEvaluator(nn::Module& module, std::size_t examples, Collate<Batch> collate,
                   Measure measure, std::size_t batch_size = 64, std::size_t ahead = 0)
      : module_(&module),
        examples_(examples),
        collate_(std::move(collate)),
        measure_(std::move(measure)),
        batch_size_(batch_size),
        ahead_(ahead) {}

  /// Means over all rows, in evaluation mode and without gradients. The batches and the order of
  /// their sum do not depend on the number of ranks.
  Metrics operator()(const EvaluationPoint& at) const {
    const autograd::NoGrad no_grad;
    const nn::EvalGuard evaluating(*module_);
    Loader<Batch> loader(examples_, collate_, {.batch_size = batch_size_, .shuffle = false},
                         at.group, ahead_);
    const std::size_t batches = (examples_ + batch_size_ - 1) / batch_size_;
    auto number = static_cast<std::size_t>(at.group.rank());
    Metrics figures;
    Tensor sums;  // (batches, figures)
    for (const Batch& batch : loader) {
      const Metrics means = measure_(batch);
      if (!sums.defined()) {
        figures = means;
        sums = zeros({static_cast<std::int64_t>(batches), static_cast<std::int64_t>(means.size())},
                     DType::f64, Device{});
      }
      RINGLET_CHECK_EQ(means.size(), figures.size(), "[ExampleEvaluator] figures of a batch");
      const auto rows = static_cast<double>(loader.share().rows);
      for (std::size_t i = 0; rows > 0 && i < means.size(); ++i)
        sums.mutable_data<double>()[number * means.size() + i] = rows * means[i].second;
      number += static_cast<std::size_t>(at.group.size());
    }
    comm::all_reduce_filled(at.group, sums);
    for (std::size_t i = 0; i < figures.size(); ++i) {
      double sum = 0;
      for (std::size_t batch = 0; batch < batches; ++batch)
        sum += sums.data<double>()[batch * figures.size() + i];
      figures[i].second = sum / static_cast<double>(examples_);
    }
    return figures;
  }

 private:
  nn::Module* module_;
  std::size_t examples_;
  Collate<Batch> collate_;
  Measure measure_;
  std::size_t batch_size_, ahead_;
};

template <class Collate, class Measure>
ExampleEvaluator(nn::Module&, std::size_t, Collate, Measure, std::size_t = 64, std::size_t = 0)
    -> ExampleEvaluator<std::invoke_result_t<Collate, const Rows&>>;

}  // namespace ringlet::train
