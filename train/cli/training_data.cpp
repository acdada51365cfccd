#include "ringlet/train/cli/training_data.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "ringlet/core/base/quote.h"
#include "ringlet/core/io/file.h"
#include "ringlet/models/folder.h"
#include "ringlet/models/losses/loss.h"
#include "ringlet/train/cli/command.h"
#include "ringlet/train/cli/texts.h"
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

/// Reads files that share options. Each file may lack what an option names, not all of them.
class FileReader {
 public:
  explicit FileReader(const DataOptions& options)
      : columns_(options.columns),
        nowhere_(train::parse_renames(options.columns)),
        split_("--split", options.per_file.split),
        eval_split_("--eval-split", options.per_file.eval_split),
        scale_("--score-scale", options.per_file.score_scale) {}

  TextDataset read(const std::string& file, int num_labels) {
    TextDataset data = read(file, {.num_labels = num_labels, .split = split(split_, file)});
    if (!data.report().split.empty()) split_.use(file);
    return data;
  }
  TextDataset read_eval(const std::string& file) { return read(file, {.split = eval_split(file)}); }
  train::SplitChoice eval_split(const std::string& file) const { return split(eval_split_, file); }
  void use_eval_split(const std::string& file) { eval_split_.use(file); }

  void check_used() const {
    if (!nowhere_.empty())
      fail_input("--columns: no file has a column ", quote(nowhere_[0].first), " to use as ",
                 quote(nowhere_[0].second));
    split_.check_used("a file of --data with a column 'split'");
    eval_split_.check_used("a file of --eval with a column 'split'");
    scale_.check_used("a file with scores");
  }

 private:
  static train::SplitChoice split(const PerFile& split, const std::string& file) {
    return {split.of(file).value_or(""), !split.is_own(file)};
  }

  TextDataset read(const std::string& file, train::ReadOptions options) {
    train::Renames missing;
    options.columns = columns_;
    options.missing_columns = &missing;
    if (const auto scale = scale_.of(file)) options.score_scale = parse_number<double>(*scale);
    TextDataset data = train::read_dataset(file, options);
    std::erase_if(nowhere_, [&](const auto& rename) {
      return std::find(missing.begin(), missing.end(), rename) == missing.end();
    });
    if (data.target() == Target::score) scale_.use(file);
    return data;
  }

  std::string columns_;
  train::Renames nowhere_;  // what no file has had yet
  PerFile split_, eval_split_, scale_;
};

Source read_source(const std::string& text, const DataOptions& options, FileReader& files) {
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
  auto dataset = std::make_shared<const TextDataset>(files.read(file, options.num_labels));
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
                                      FileReader& files) {
  const auto has_loss = [&](const TextDataset& data) {
    return training.source_like(data).has_value();
  };
  const auto read = [&](const std::string& file) { return files.read_eval(file); };
  const std::vector<std::string> names = train::short_names(options.eval);
  std::vector<EvaluationData> all;
  for (std::size_t i = 0; i < names.size(); ++i) {
    const std::string& file = options.eval[i];
    read_pipe("--eval", file, options.readers);
    all.push_back(read_evaluation_data({.option = "--eval",
                                        .file = file,
                                        .classes = classes_of(training.sources),
                                        .columns = options.columns,
                                        .split = files.eval_split(file),
                                        .read = read,
                                        .has_loss = has_loss},
                                       names[i]));
    if (!all.back().reports.front().split.empty()) files.use_eval_split(file);
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
  FileReader files(options);
  for (const std::string& text : options.data)
    data.sources.push_back(read_source(text, options, files));
  if (!options.eval.empty()) data.eval = read_eval(options, data, files);
  files.check_used();
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
