#include "ringlet/train/evaluators/mse_evaluator.h"

namespace ringlet::train {

MSEEvaluator::MSEEvaluator(Tensor teacher, std::vector<std::string> texts, Options options)
    : options_(std::move(options)),
      teacher_(teacher.to_vector<double>()),
      width_(teacher.size(1)),
      texts_(std::move(texts)) {
  if (texts_.empty()) fail_input("mse: expected texts, found none");
  RINGLET_CHECK_EQ(teacher.size(0), std::ssize(texts_), "[mse] embeddings of the teacher");
}

Report MSEEvaluator::report(const models::SentenceEncoder& model, const EvaluationPoint& at) const {
  return report_of(encode_as(TextRole::plain, model, texts_, options_.encode, at.group), at);
}

Report MSEEvaluator::report_of(const Tensor& embeddings, const EvaluationPoint& at) const {
  if (embeddings.size(1) != width_)
    fail_input("mse: expected embeddings of ", width_, " numbers like the teacher's, found ",
               embeddings.size(1));
  const std::vector<double> student = embeddings.to_vector<double>();
  RINGLET_CHECK_EQ(student.size(), teacher_.size(), "[mse] embeddings of both");
  double sum = 0;
  for (std::size_t i = 0; i < student.size(); ++i) {
    const double difference = teacher_[i] - student[i];
    sum += difference * difference;
  }
  const double mse = 100 * sum / static_cast<double>(student.size());
  Report report(options_.name);
  report.add_metric("negative_mse", -mse);
  report.add_column("MSE", mse);
  report.write(options_.name.empty() ? "mse_evaluation_" : "mse_evaluation", at);
  return report;
}

}  // namespace ringlet::train
