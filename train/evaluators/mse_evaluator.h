// How far embeddings are from those of a teacher.
#pragma once

#include <string>
#include <vector>

#include "ringlet/train/evaluators/evaluator.h"

namespace ringlet::train {

/// The metric "negative_mse" is -100 times the mean squared difference; the column MSE of
/// mse_evaluation_NAME_results.csv is positive.
class MSEEvaluator final : public Evaluator {
 public:
  struct Options {
    std::string name = {};
    models::EncodeOptions encode = {};
  };
  /// `teacher` (texts, H) is the teacher's embedding of each text. InputError without texts.
  MSEEvaluator(Tensor teacher, std::vector<std::string> texts, Options options);
  const char* kind() const override { return "MSEEvaluator"; }

  /// InputError unless the model's embeddings are as wide as the teacher's.
  Report report(const models::SentenceEncoder& model,
                const EvaluationPoint& at = {}) const override;
  Report report_of(const Tensor& embeddings, const EvaluationPoint& at = {}) const;

 private:
  Options options_;
  std::vector<double> teacher_;
  std::int64_t width_;
  std::vector<std::string> texts_;
};

}  // namespace ringlet::train
