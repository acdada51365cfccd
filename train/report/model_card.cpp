#include "ringlet/train/report/model_card.h"
#include "ringlet/core/io/json.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <set>

#include "ringlet/core/io/file.h"
#include "ringlet/train/report/metrics.h"

namespace ringlet::train {
namespace {

/// An evaluation, and the training loss that was logged before.
struct LoggedEvaluation {
  std::int64_t step = 0;
  double epoch = 0;
  std::string loss = "-";
  Metrics metrics;
};

/// In the file's order; none without a file. InputError for a line that is none of metrics.jsonl.
std::vector<LoggedEvaluation> logged_evaluations(const std::filesystem::path& metrics) {
  std::vector<LoggedEvaluation> rows;
  if (metrics.empty() || !path_exists(metrics)) return rows;
  std::string loss = "-";
  for (const MetricsLine& line : read_metrics(metrics)) {
    const auto is_loss = [](const auto& value) { return value.first == "loss"; };
    if (const auto found = std::ranges::find_if(line.values, is_loss); found != line.values.end()) {
      loss = found->second ? fmt::format("{:.4f}", *found->second) : "nan";
      continue;
    }
    LoggedEvaluation& row = rows.emplace_back(LoggedEvaluation{line.step, line.epoch, loss, {}});
    for (const auto& [name, value] : line.values)
      if (value) row.metrics.emplace_back(name, *value);
  }
  return rows;
}

/// A line for each evaluation, that of step `bold` in bold, with the figures of the last one.
std::string to_markdown(const std::vector<LoggedEvaluation>& log,
                        std::optional<std::int64_t> bold) {
  std::string first = "| Epoch | Step | Training Loss |", rule = "|:---:|:---:|:---:|", rows;
  for (const auto& metric : log.back().metrics) {
    first += ' ' + metric.first + " |";
    rule += ":---:|";
  }
  for (const LoggedEvaluation& row : log) {
    const char* const mark = bold == row.step ? "**" : "";
    rows += fmt::format("| {0}{1:.4f}{0} | {0}{2}{0} | {0}{3}{0} |", mark, row.epoch, row.step,
                        row.loss);
    for (const auto& metric : log.back().metrics) {
      const auto value = find_metric(row.metrics, metric.first);
      rows += fmt::format(" {0}{1}{0} |", mark, value ? fmt::format("{:.4f}", *value) : "-");
    }
    rows += '\n';
  }
  return first + '\n' + rule + '\n' + rows;
}

constexpr const char* kDocs = "https://sbert.net/docs/package_reference/sentence_transformer";

/// "organisation/name"
bool is_hub_name(const std::string& model) {
  const auto is_part = [](std::string_view part) {
    return !part.empty() && std::isalnum(static_cast<unsigned char>(part[0])) &&
           std::ranges::all_of(part, [](unsigned char c) {
             return std::isalnum(c) || c == '-' || c == '_' || c == '.';
           });
  };
  const std::size_t slash = model.find('/');
  return slash != model.npos && is_part(std::string_view(model).substr(0, slash)) &&
         is_part(std::string_view(model).substr(slash + 1)) && !folder_exists(model);
}

std::string link(const std::string& page, const std::string& name) {
  std::string anchor = name;
  if (page == "losses")
    std::ranges::transform(anchor, anchor.begin(), [](unsigned char c) { return std::tolower(c); });
  else
    anchor = "sentence_transformers.sentence_transformer.evaluation." + name;
  return fmt::format("[<code>{}</code>]({}/{}.html#{})", name, kDocs, page, anchor);
}

/// "Pearson Cosine" of "pearson_cosine".
std::string title(std::string name) {
  bool starts = true;
  for (char& c : name) {
    if (starts) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
    starts = c == '_';
    if (starts) c = ' ';
  }
  return name;
}

/// "Information Retrieval" of "InformationRetrievalEvaluator".
std::string task_of(const std::string& kind) {
  if (kind == "EmbeddingSimilarityEvaluator") return "Semantic Similarity";
  std::string task;
  for (const char c : kind.substr(0, kind.find("Evaluator")))
    task += (std::isupper(static_cast<unsigned char>(c)) && !task.empty() ? " " : "") +
            std::string(1, c);
  return task;
}

/// "information-retrieval" of "Information Retrieval".
std::string dashed(std::string task) {
  for (char& c : task)
    c = c == ' ' ? '-' : static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return task;
}

class Writer {
 public:
  Writer(const ModelCard& card, const models::SentenceEncoder& model)
      : card_(card), model_(model), log_(logged_evaluations(card.metrics)) {
    Metrics figures;
    for (const LoggedEvaluation& row : log_)
      if (!card.step || row.step == *card.step) figures = row.metrics;
    for (const ModelCard::Evaluator& evaluator : card.evaluators)
      if (Metrics found = figures_of(evaluator, figures); !found.empty())
        results_.emplace_back(evaluator, std::move(found));
  }

  std::string operator()() && {
    metadata();
    description();
    usage();
    evaluation();
    text_ += "\n## Training Details\n";
    datasets("Training", card_.train_datasets);
    datasets("Evaluation", card_.eval_datasets);
    hyperparameters();
    if (!log_.empty())
      line("\n### Training Logs\n{}{}", to_markdown(log_, card_.step),
           card_.step ? "\n* The bold row denotes the saved checkpoint." : "");
    return std::move(text_);
  }

 private:
  template <class... Values>
  void line(fmt::format_string<Values...> format, Values&&... values) {
    text_ += fmt::format(format, std::forward<Values>(values)...) + '\n';
  }

  /// The figures of an evaluator, without the name of its data: another's name may begin alike.
  Metrics figures_of(const ModelCard::Evaluator& evaluator, const Metrics& all) const {
    const std::string prefix = evaluator.name + '_';
    Metrics found;
    for (const auto& [metric, value] : all) {
      if (!metric.starts_with(prefix) || metric.ends_with("_loss")) continue;
      const bool of_another =
          std::ranges::any_of(card_.evaluators, [&, &metric = metric](const auto& other) {
            return other.name.starts_with(prefix) && metric.starts_with(other.name + '_');
          });
      if (!of_another) found.emplace_back(metric.substr(prefix.size()), value);
    }
    return found;
  }

  void metadata() {
    line(
        "---\ntags:\n- sentence-transformers\n- sentence-similarity\n- feature-extraction\n- "
        "dense");
    line("- generated_from_trainer");
    std::size_t rows = 0;
    std::set<std::string> losses, names;
    for (const ModelCard::Data& data : card_.train_datasets) rows += data.dataset->size();
    line("- dataset_size:{}", rows);
    for (const ModelCard::Data& data : card_.train_datasets)
      if (losses.insert(data.loss).second) line("- loss:{}", data.loss);
    if (is_hub_name(card_.base_model)) line("base_model: {}", card_.base_model);
    line("pipeline_tag: sentence-similarity\nlibrary_name: sentence-transformers");
    for (const auto& [evaluator, figures] : results_)
      for (const auto& figure : figures) names.insert(figure.first);
    if (!names.empty()) line("metrics:");
    for (const std::string& name : names) line("- {}", name);
    if (!names.empty()) line("model-index:\n- name: SentenceTransformer\n  results:");
    for (const auto& [evaluator, figures] : results_) {
      const std::string task = task_of(evaluator.kind);
      line("  - task:\n      type: {}\n      name: {}", dashed(task), task);
      line("    dataset:\n      name: {0}\n      type: {0}\n    metrics:",
           json_quoted(evaluator.name));
      for (const auto& [name, value] : figures)
        line("    - type: {}\n      value: {}\n      name: {}", name, value, title(name));
    }
    line("---\n");
  }

  void description() {
    line("# SentenceTransformer\n");
    line(
        "This is a [sentence-transformers](https://www.SBERT.net) model {}. It maps sentences to a "
        "{}-dimensional dense vector space for semantic similarity, search and clustering.\n",
        card_.base_model.empty() ? "trained from random weights"
        : is_hub_name(card_.base_model)
            ? fmt::format("finetuned from [{0}](https://huggingface.co/{0})", card_.base_model)
            : "finetuned from " + card_.base_model,
        model_.encoded_dimension());
    line("## Model Details\n\n### Model Description\n- **Model Type:** Sentence Transformer");
    line("- **Base model:** {}", card_.base_model.empty() ? "none" : card_.base_model);
    line("- **Maximum Sequence Length:** {} tokens", model_.max_seq_length());
    line("- **Output Dimensionality:** {} dimensions", model_.encoded_dimension());
    line("- **Similarity Function:** {}", model_.sentence_config().similarity_fn_name);
    line("- **Training Datasets:**");
    for (const ModelCard::Data& data : card_.train_datasets) line("    - {}", data.name);
  }

  void usage() {
    line("\n## Usage\n\n```bash\npip install -U sentence-transformers\n```\n\n```python");
    line("from sentence_transformers import SentenceTransformer\n");
    line("model = SentenceTransformer(\"path/to/this/folder\")");
    line("embeddings = model.encode([\"A dog runs.\", \"A cat sleeps.\"])");
    line("print(embeddings.shape)  # (2, {})", model_.encoded_dimension());
    line("print(model.similarity(embeddings, embeddings))\n```");
  }

  void evaluation() {
    if (!results_.empty()) line("\n## Evaluation\n\n### Metrics");
    for (const auto& [evaluator, figures] : results_) {
      line("\n#### {}\n", task_of(evaluator.kind));
      line("* Dataset: `{}`\n* Evaluated with {}\n", evaluator.name,
           link("evaluation", evaluator.kind));
      line("| Metric | Value |\n|:---|:---|");
      for (const auto& [name, value] : figures) line("| {} | {:.4f} |", name, value);
    }
  }

  void datasets(const char* type, const std::vector<ModelCard::Data>& all) {
    if (all.empty()) return;
    line("\n### {} Dataset{}", type, all.size() > 1 ? "s" : "");
    for (const ModelCard::Data& data : all) {
      std::string columns;
      for (const std::string& column : data.dataset->columns())
        columns += fmt::format("{}<code>{}</code>", columns.empty() ? "" : ", ", column);
      if (data.dataset->target() != Target::none)
        columns += data.dataset->target() == Target::score ? ", <code>score</code>"
                                                           : ", <code>label</code>";
      line("\n#### {}\n\n* Size: {} samples\n* Columns: {}", data.name,
           fmt::group_digits(data.dataset->size()), columns);
      if (!data.loss.empty()) line("* Loss: {}", link("losses", data.loss));
    }
  }

  void hyperparameters() {
    line("\n### Training Hyperparameters\n#### Non-Default Hyperparameters\n");
    for (const auto& [name, value] : card_.changed_arguments) line("- `{}`: {}", name, value);
    line("\n#### All Hyperparameters\n<details><summary>Click to expand</summary>\n");
    for (const auto& [name, value] : card_.arguments) line("- `{}`: {}", name, value);
    line("\n</details>");
  }

  const ModelCard& card_;
  const models::SentenceEncoder& model_;
  std::vector<LoggedEvaluation> log_;
  std::vector<std::pair<ModelCard::Evaluator, Metrics>>
      results_;  // with figures of the saved model
  std::string text_;
};

}  // namespace

std::string model_card(const ModelCard& card, const models::SentenceEncoder& model) {
  return Writer(card, model)();
}

}  // namespace ringlet::train
