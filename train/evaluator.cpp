#include "ringlet/train/evaluator.h"

#include <algorithm>
#include <cmath>

#include "ringlet/nn/eval_guard.h"
#include "ringlet/train/batches_in_turn.h"
#include "ringlet/train/classification.h"
#include "ringlet/train/data/readers.h"
#include "ringlet/train/encode_together.h"
#include "ringlet/train/statistics.h"

namespace ringlet::train {
namespace {

double similarity_of(Similarity similarity, const float* a, const float* b, std::int64_t n) {
  double dot = 0, aa = 0, bb = 0, squared = 0, absolute = 0;
  for (std::int64_t i = 0; i < n; ++i) {
    const double x = a[i], y = b[i];
    dot += x * y;
    aa += x * x;
    bb += y * y;
    squared += (x - y) * (x - y);
    absolute += std::abs(x - y);
  }
  switch (similarity) {
    case Similarity::cosine:  // norms are at least 1e-12, as in torch's normalize
      return dot / (std::max(std::sqrt(aa), 1e-12) * std::max(std::sqrt(bb), 1e-12));
    case Similarity::dot:
      return dot;
    case Similarity::euclidean:
      return -std::sqrt(squared);
    case Similarity::manhattan:
      break;
  }
  return -absolute;
}

std::string prefix(const std::string& name) { return name.empty() ? "" : name + '_'; }

}  // namespace

std::vector<double> paired_similarities(Similarity similarity, const Tensor& a, const Tensor& b) {
  RINGLET_CHECK(a.dim() == 2 && a.shape() == b.shape(), "[similarity] embeddings of shapes ",
                a.shape(), " and ", b.shape());
  const Tensor first = a.to(Device()), second = b.to(Device());
  std::vector<double> values;
  for (std::int64_t i = 0; i < a.size(0); ++i)
    values.push_back(
        similarity_of(similarity, first[i].data<float>(), second[i].data<float>(), a.size(1)));
  return values;
}

// ---- similarity -----------------------------------------------------------------------------

EmbeddingSimilarityEvaluator::EmbeddingSimilarityEvaluator(const std::filesystem::path& file)
    : EmbeddingSimilarityEvaluator(read_dataset(file), Options{.name = file.stem().string()}) {}

EmbeddingSimilarityEvaluator::EmbeddingSimilarityEvaluator(const TextDataset& dataset,
                                                           Options options)
    : options_(std::move(options)) {
  if (dataset.columns().size() != 2 || dataset.target() != Target::score)
    fail_input(dataset.name(), ": expected two sentences and a score in each row");
  for (std::size_t row = 0; row < dataset.size(); ++row) {
    const RowTexts texts = dataset.texts(row);
    first_.emplace_back(texts[0]);
    second_.emplace_back(texts[1]);
    scores_.push_back(dataset.score(row));
  }
  const auto [low, high] = std::minmax_element(scores_.begin(), scores_.end());
  if (low == high || *low == *high)
    fail_input(dataset.name(), ": expected scores that differ, found ", scores_.size(), " rows of ",
               scores_.empty() ? 0 : *low);
}

Metrics EmbeddingSimilarityEvaluator::evaluate(const models::SentenceEncoder& model,
                                               const EvaluationPoint& at) const {
  const Similarity own = kSimilarities.parse(model.sentence_config().similarity_fn_name);
  const auto encode = [&](const std::vector<std::string>& texts) {
    return encode_together(model, texts, options_.encode, at.group);
  };
  return correlate(encode(first_), encode(second_), own, at);
}

Metrics EmbeddingSimilarityEvaluator::correlate(const Tensor& first, const Tensor& second,
                                                Similarity otherwise,
                                                const EvaluationPoint& at) const {
  Metrics metrics;
  std::string header = "epoch,steps";
  std::vector<double> line{at.epoch, static_cast<double>(at.step)};
  std::vector<Similarity> similarities = options_.similarities;
  if (similarities.empty()) similarities.push_back(otherwise);
  for (const Similarity similarity : similarities) {
    const std::vector<double> values = paired_similarities(similarity, first, second);
    const std::string name(kSimilarities(similarity));
    const double r = pearson(values, scores_), rho = spearman(values, scores_);
    metrics.emplace_back(prefix(options_.name) + "pearson_" + name, r);
    metrics.emplace_back(prefix(options_.name) + "spearman_" + name, rho);
    header += ',' + name + "_pearson," + name + "_spearman";
    line.insert(line.end(), {r, rho});
  }
  if (!at.output.empty() && at.group.rank() == 0)
    append_csv(at.output / ("similarity_evaluation_" + prefix(options_.name) + "results.csv"),
               header, line);
  return metrics;
}

// ---- labels ---------------------------------------------------------------------------------

LabelAccuracyEvaluator::LabelAccuracyEvaluator(std::shared_ptr<const TextDataset> dataset,
                                               Options options)
    : options_(std::move(options)), dataset_(std::move(dataset)) {
  if (dataset_->target() != Target::label || dataset_->size() == 0)
    fail_input(dataset_->name(), ": expected rows with a label");
}

Metrics LabelAccuracyEvaluator::run(nn::Module& module, const Logits& logits,
                                    const models::Tokenizer& tokenizer,
                                    const EvaluationPoint& at) const {
  const nn::EvalGuard mode(module);
  const autograd::NoGrad no_grad;
  const Device device = module.device();
  const auto batch_rows = static_cast<std::int64_t>(options_.batch_size);
  Tensor all;  // (rows, classes)
  const auto run_mine = [&](const models::PackedBatch& batch, std::int64_t number) {
    const Tensor scores = logits(batch.to(device)).tensor().to(Device{}).to(DType::f32);
    if (dataset_->num_labels() > scores.size(1))
      fail_input(dataset_->name(), ": expected labels below ", scores.size(1), ", found ",
                 dataset_->num_labels() - 1);
    if (!all.defined())
      all = zeros({static_cast<std::int64_t>(dataset_->size()), scores.size(1)}, DType::f32,
                  Device{});
    if (number >= 0) all.slice(number * batch_rows, number * batch_rows + batch.rows).copy_(scores);
  };
  for_batches_in_turn(dataset_, tokenizer, {.batch_size = options_.batch_size}, at.group, run_mine);
  gather_rows(all, at.group);
  ClassificationMeter meter;
  const auto rows = static_cast<std::int64_t>(dataset_->size());
  for (std::int64_t begin = 0; begin < rows; begin += batch_rows) {
    const std::int64_t end = std::min(begin + batch_rows, rows);
    std::vector<std::int64_t> labels;
    for (std::int64_t i = begin; i < end; ++i)
      labels.push_back(dataset_->label(static_cast<std::size_t>(i)));
    meter.add(all.slice(begin, end), tensor(labels, {end - begin}, Device{}));
  }
  if (!at.output.empty() && at.group.rank() == 0)
    append_csv(at.output / ("accuracy_evaluation_" + prefix(options_.name) + "results.csv"),
               "epoch,steps,accuracy", {at.epoch, static_cast<double>(at.step), meter.accuracy()});
  return {{prefix(options_.name) + "accuracy", meter.accuracy()}};
}

}  // namespace ringlet::train
