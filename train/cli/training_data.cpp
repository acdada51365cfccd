#include "ringlet/train/cli/training_data.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "ringlet/core/base/quote.h"
#include "ringlet/core/io/file.h"
#include "ringlet/models/folder.h"
#include "ringlet/models/losses/loss.h"
#include "ringlet/train/cli/command.h"
#include "ringlet/train/cli/inputs.h"
#include "ringlet/train/data/rows.h"
#include "ringlet/train/data/synthetic.h"
#include "ringlet/train/evaluators/encode_together.h"
#include "ringlet/train/evaluators/evaluator.h"

namespace ringlet::cli {
namespace {

using train::Target;
using train::TextDataset;

constexpr double kSyntheticScale = 5;

int classes_of(const Source& source) { return std::max(2, source.dataset->num_labels()); }

/// The options of files that share them. Each file may lack what an option names, not all of them.
class SharedOptions {
 public:
  explicit SharedOptions(const DataOptions& options)
      : split("--split", options.split),
        eval_split("--eval-split", options.eval_split),
        columns_(options.columns),
        nowhere_(train::parse_renames(options.columns)),
        scale_("--score-scale", options.score_scale) {}

  train::ReadOptions of(const std::string& file, PerFile& splits) {
    missing_.clear();
    train::ReadOptions options{.columns = columns_, .missing_columns = &missing_};
    if (const auto* split = splits.find(file)) options.split = {split->value, split->file.empty()};
    if (const auto* scale = scale_.find(file))
      options.score_scale = parse_number<double>(scale->value);
    return options;
  }
  /// After the file was read with these. `data`: null without columns of sentences.
  void note_used(const std::string& file, PerFile& splits, const train::FileReport& report,
                 const TextDataset* data) {
    if (!report.split.empty()) splits.find(file)->used = true;
    if (data == nullptr) return;
    std::erase_if(nowhere_,
                  [&](const auto& rename) { return !std::ranges::count(missing_, rename); });
    auto* const scale = scale_.find(file);
    if (scale && data->target() == Target::score) scale->used = true;
  }
  void check_used() const {
    if (!nowhere_.empty())
      fail_input("--columns: no file has a column ", quote(nowhere_[0].first), " to use as ",
                 quote(nowhere_[0].second));
    split.check_used("a file of --data with a column 'split'");
    eval_split.check_used("a file of --eval with a column 'split'");
    scale_.check_used("a file with scores");
  }

  PerFile split, eval_split;

 private:
  std::string columns_;
  train::Renames nowhere_;  // what no file has had yet
  train::Renames missing_;  // what the latest file lacks
  PerFile scale_;
};

Source read_source(const std::string& text, const DataOptions& options, SharedOptions& shared) {
  std::string file = text;
  const LossKind* loss = options.loss;
  if (const std::size_t colon = text.rfind(':'); colon != text.npos) {
    const std::string name = text.substr(colon + 1);
    const bool known = find_loss(name) != nullptr;
    const bool path = text.find('/', colon) != text.npos || path_exists(text);
    if (known || !path) loss = of_option("--data " + text, [&] { return &parse_loss(name); });
    if (known) file = text.substr(0, colon);
  }
  read_pipe("--data", file, options.readers);
  train::ReadOptions how = shared.of(file, shared.split);
  how.num_labels = options.num_labels;
  auto dataset = std::make_shared<const TextDataset>(train::read_dataset(file, how));
  shared.note_used(file, shared.split, dataset->report(), dataset.get());
  if (!loss) loss = &deduce_loss(*dataset, "--data " + file);
  check_suits(*dataset, *loss, "--data " + file);
  if (options.num_labels == 0 && dataset->num_labels() > kMaxGuessedLabels)
    fail_input("--data ", file, ": label ", dataset->num_labels() - 1, " makes ",
               dataset->num_labels(), " classes; say --num-labels if there are so many");
  return {std::move(dataset), loss};
}

std::shared_ptr<const TextDataset> dataset_of(const std::string& name,
                                              const std::vector<train::TextPair>& pairs,
                                              Target target) {
  auto data = std::make_shared<TextDataset>(
      name, std::vector<std::string>{"sentence1", "sentence2"}, target);
  for (const train::TextPair& pair : pairs) {
    const std::array<std::string_view, 2> texts{pair.sentence1, pair.sentence2};
    data->add_row(texts, target == Target::score ? pair.target / kSyntheticScale : pair.target);
  }
  return data;
}

TrainingData synthetic_data(std::uint64_t seed) {
  constexpr train::SyntheticSizes kSizes;
  const train::TextSplits nli = train::make_nli(seed, kSizes.nli_train, kSizes.nli_dev);
  const train::TextSplits sts = train::make_sts(seed, kSizes.sts_train, kSizes.sts_dev);
  return {{{dataset_of("nli", nli.train, Target::label), &parse_loss("softmax")},
           {dataset_of("sts", sts.train, Target::score), &parse_loss("cosine")}},
          {evaluation_data(dataset_of("nli-dev", nli.dev, Target::label), "nli-dev"),
           evaluation_data(dataset_of("sts-dev", sts.dev, Target::score), "sts-dev")}};
}

/// The classes of the first loss that has some; 0 without one.
int classes_of(const std::vector<Source>& sources) {
  for (const Source& source : sources)
    if (source.loss->traits & kClassifier) return classes_of(source);
  return 0;
}

std::vector<EvaluationData> read_eval(const DataOptions& options, const TrainingData& training,
                                      SharedOptions& shared) {
  const auto has_loss = [&](const TextDataset& data) {
    return training.source_like(data).has_value();
  };
  const std::vector<std::string> names = train::short_names(options.eval);
  std::vector<EvaluationData> all;
  for (std::size_t i = 0; i < names.size(); ++i) {
    const std::string& file = options.eval[i];
    read_pipe("--eval", file, options.readers);
    const EvaluationSource source{.option = "--eval",
                                  .file = file,
                                  .read = shared.of(file, shared.eval_split),
                                  .classes = classes_of(training.sources),
                                  .has_loss = has_loss};
    const EvaluationData& data = all.emplace_back(read_evaluation_data(source, names[i]));
    shared.note_used(file, shared.eval_split, data.reports.front(), data.dataset.get());
  }
  return all;
}

}  // namespace

train::Datasets TrainingData::datasets() const {
  train::Datasets all;
  for (const Source& source : sources) all.push_back(source.dataset);
  return all;
}

std::vector<train::FileReport> TrainingData::reports() const {
  std::vector<train::FileReport> all;
  for (const Source& source : sources) all.push_back(source.dataset->report());
  for (const EvaluationData& one : eval)
    all.insert(all.end(), one.reports.begin(), one.reports.end());
  return all;
}

std::vector<std::string> TrainingData::texts() const {
  std::vector<std::string> all;
  for (const Source& source : sources)
    for (std::size_t row = 0; row < source.dataset->size(); ++row)
      for (const std::string_view text : source.dataset->texts(row)) all.emplace_back(text);
  return all;
}

std::optional<std::size_t> TrainingData::source_like(const TextDataset& dataset) const {
  for (std::size_t i = 0; i < sources.size(); ++i) {
    const TextDataset& trained = *sources[i].dataset;
    if (trained.target() == dataset.target() &&
        trained.columns().size() == dataset.columns().size() &&
        trained.num_labels() >= dataset.num_labels())
      return i;
  }
  return std::nullopt;
}

TrainingData read_training_data(const DataOptions& options) {
  TrainingData data;
  if (options.data.empty()) data = synthetic_data(options.seed);
  SharedOptions shared(options);
  for (const std::string& text : options.data)
    data.sources.push_back(read_source(text, options, shared));
  if (!options.eval.empty()) data.eval = read_eval(options, data, shared);
  shared.check_used();
  for (EvaluationData& eval : data.eval)
    if (eval.dataset) eval.source = data.source_like(*eval.dataset);
  std::vector<const LossKind*> losses;
  for (const Source& source : data.sources) losses.push_back(source.loss);
  check_loss_options(options.losses, losses);
  const bool distils = std::ranges::any_of(
      losses, [](const LossKind* loss) { return (loss->traits & kTeacher) != 0; });
  if (distils != !options.teacher.empty())
    fail_input(distils ? "loss mse: expected --teacher FOLDER"
                       : "--teacher: no loss of this run is mse");
  if (distils && !folder_exists(models::cached_folder(options.teacher)))
    fail_input("--teacher ", options.teacher, ": no such folder");
  return data;
}

void set_teacher_targets(TrainingData& data, const std::string& teacher,
                         const models::SentenceEncoder& student, const comm::Group& group) {
  if (teacher.empty()) return;
  const auto encoder = models::SentenceEncoder::from_pretrained(teacher, student.device());
  if (encoder.encoded_dimension() != student.dimension())
    fail_input("--teacher ", teacher, ": its embeddings have ", encoder.encoded_dimension(),
               " numbers, the model's ", student.dimension());
  const std::string from =
      fmt::format("teacher {:016x}", train::hash_folder(models::cached_folder(teacher)));
  const auto taught = [&](const TextDataset& rows) {
    auto copy = std::make_shared<TextDataset>(rows);
    copy->set_embeddings(train::embed_blocks(encoder, train::column_texts(rows, 0), {}, group),
                         from);
    return copy;
  };
  const auto is_taught = [&](std::size_t source) {
    return (data.sources[source].loss->traits & kTeacher) != 0;
  };
  for (EvaluationData& eval : data.eval)
    if (eval.source && is_taught(*eval.source)) eval.dataset = taught(*eval.dataset);
  for (std::size_t i = 0; i < data.sources.size(); ++i)
    if (is_taught(i)) data.sources[i].dataset = taught(*data.sources[i].dataset);
}

Losses make_losses(const TrainingData& data, const LossOptions& options,
                   const models::SentenceEncoder& encoder) {
  Losses losses;
  std::vector<std::shared_ptr<models::Loss>> each;
  for (const Source& source : data.sources) {
    each.push_back(make_loss(*source.loss, options, encoder, classes_of(source)));
    losses.kinds.emplace_back(each.back()->kind());
    if (!losses.classifier)
      losses.classifier = std::dynamic_pointer_cast<models::SoftmaxLoss>(each.back());
  }
  losses.all = each.size() == 1 ? each.front()
                                : std::make_shared<models::MultiLoss>(encoder.modules(), each);
  return losses;
}

}  // namespace ringlet::cli
