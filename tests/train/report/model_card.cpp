#include "ringlet/train/report/model_card.h"

#include <doctest/doctest.h>

#include "../../files.h"
#include "../words.h"
#include "ringlet/core/io/file.h"
#include "ringlet/train/argument_table.h"

using namespace ringlet;
using namespace ringlet::train;

namespace {

models::SentenceEncoder small_encoder() {
  return {words::encoder_config(models::Architecture::mpnet), words::tokenizer()};
}

ModelCard::Data data_of(std::shared_ptr<const TextDataset> dataset, const std::string& name,
                        const std::string& loss) {
  return {std::move(dataset), name, loss};
}

/// Between two lines, without them.
std::string section(const std::string& text, const std::string& begin, const std::string& end) {
  const std::size_t from = text.find(begin) + begin.size(), to = text.find(end, from);
  REQUIRE(to != text.npos);
  return text.substr(from, to - from);
}

}  // namespace

TEST_CASE("a card names the base model, data, losses, changed arguments and results") {
  const TemporaryFolder folder;
  write_file(folder / "metrics.jsonl",
             "{\"step\":10,\"epoch\":0.5,\"loss\":0.75,\"lr\":1e-05}\n"
             "{\"step\":20,\"epoch\":1,\"loss\":0.5,\"lr\":1e-05}\n"
             "{\"step\":20,\"epoch\":1,\"eval_loss\":0.25,\"dev_pearson_cosine\":0.7,"
             "\"dev_spearman_cosine\":0.8}\n"
             "{\"step\":40,\"epoch\":2,\"eval_loss\":0.375,\"dev_pearson_cosine\":0.5,"
             "\"dev_spearman_cosine\":0.6}\n");
  ModelCard card;
  card.base_model = "microsoft/mpnet-base";
  card.train_datasets = {data_of(words::dataset(1234, 3), "nli", "SoftmaxLoss"),
                         data_of(words::scored_dataset(10), "sts", "CosineSimilarityLoss")};
  card.eval_datasets = {data_of(words::scored_dataset(5), "dev", "CosineSimilarityLoss")};
  card.evaluators = {{"EmbeddingSimilarityEvaluator", "dev"}};
  card.metrics = folder / "metrics.jsonl";
  card.step = 20;
  const TrainingArguments arguments{.num_train_epochs = 2, .learning_rate = 2e-5};
  card.arguments = argument_texts(arguments);
  card.changed_arguments = changed_arguments(arguments);
  const std::string text = model_card(card, small_encoder());

  CHECK(section(text, "---\n", "---\n") ==
        "tags:\n- sentence-transformers\n- sentence-similarity\n- feature-extraction\n- dense\n"
        "- generated_from_trainer\n- dataset_size:1244\n- loss:SoftmaxLoss\n"
        "- loss:CosineSimilarityLoss\nbase_model: microsoft/mpnet-base\n"
        "pipeline_tag: sentence-similarity\nlibrary_name: sentence-transformers\n"
        "metrics:\n- pearson_cosine\n- spearman_cosine\n"
        "model-index:\n- name: SentenceTransformer\n  results:\n"
        "  - task:\n      type: semantic-similarity\n      name: Semantic Similarity\n"
        "    dataset:\n      name: \"dev\"\n      type: \"dev\"\n    metrics:\n"
        "    - type: pearson_cosine\n      value: 0.7\n      name: Pearson Cosine\n"
        "    - type: spearman_cosine\n      value: 0.8\n      name: Spearman Cosine\n");
  CHECK(section(text, "#### Non-Default Hyperparameters\n\n", "\n####") ==
        "- `num_train_epochs`: 2\n- `learning_rate`: 2e-05\n");
  CHECK(section(text, "| Metric | Value |\n|:---|:---|\n", "\n## Training Details") ==
        "| pearson_cosine | 0.7000 |\n| spearman_cosine | 0.8000 |\n");
  CHECK(section(text, "### Training Logs\n", "* The bold row") ==
        "| Epoch | Step | Training Loss | eval_loss | dev_pearson_cosine | dev_spearman_cosine |\n"
        "|:---:|:---:|:---:|:---:|:---:|:---:|\n"
        "| **1.0000** | **20** | **0.5000** | **0.2500** | **0.7000** | **0.8000** |\n"
        "| 2.0000 | 40 | 0.5000 | 0.3750 | 0.5000 | 0.6000 |\n\n");
  CHECK(
      text.find("* Size: 1,234 samples\n* Columns: <code>sentence1</code>, <code>sentence2</code>, "
                "<code>label</code>\n") != text.npos);
  CHECK(text.find("losses.html#softmaxloss)") != text.npos);
  CHECK(text.find("16-dimensional") != text.npos);
}

TEST_CASE("a card does not mix figures of data sets with names that begin alike") {
  const TemporaryFolder folder;
  write_file(folder / "metrics.jsonl",
             "{\"step\":1,\"epoch\":1,\"eval_loss\":0.25,\"eval_pearson_cosine\":0.5,"
             "\"eval_2_pearson_cosine\":0.75,\"eval_2_nli_accuracy\":0.125}\n");
  ModelCard card;
  card.train_datasets = {data_of(words::dataset(8, 2), "nli", "SoftmaxLoss")};
  card.evaluators = {{"EmbeddingSimilarityEvaluator", "eval"},
                     {"EmbeddingSimilarityEvaluator", "eval_2"},
                     {"LabelAccuracyEvaluator", "eval_2_nli"}};
  card.metrics = folder / "metrics.jsonl";
  const std::string text = model_card(card, small_encoder());
  const std::string table = "| Metric | Value |\n|:---|:---|\n";
  std::string found;
  for (std::size_t at = 0; (at = text.find(table, at)) != text.npos;) {
    at += table.size();
    found += text.substr(at, text.find("\n\n", at) - at) + ";";
  }
  CHECK(found == "| pearson_cosine | 0.5000 |;| pearson_cosine | 0.7500 |;| accuracy | 0.1250 |;");
}

TEST_CASE("a card without results, of random weights or a folder, has no hub metadata of them") {
  ModelCard card;
  card.train_datasets = {data_of(words::dataset(8, 2), "nli", "SoftmaxLoss")};
  const std::string fresh = model_card(card, small_encoder());
  CHECK(fresh.find("trained from random weights") != fresh.npos);
  for (const char* absent :
       {"base_model:", "metrics:", "model-index:", "## Evaluation", "### Training Logs"}) {
    CAPTURE(absent);
    CHECK(fresh.find(absent) == fresh.npos);
  }
  for (const char* folder : {"/data/mpnet", "out/tiny/model", "../mpnet", "mpnet"}) {
    card.base_model = folder;
    const std::string local = model_card(card, small_encoder());
    CHECK(local.find("base_model:") == local.npos);
    CHECK(local.find(str("finetuned from ", folder)) != local.npos);
  }
}

TEST_CASE("arguments have Python's text, and the changed ones are those that differ") {
  CHECK(changed_arguments({}).empty());
  const auto changed = changed_arguments({.lr_scheduler_type = Decay::cosine,
                                          .dtype = DType::bf16,
                                          .gradient_checkpointing = true,
                                          .load_best_model_at_end = true,
                                          .greater_is_better = false});
  const std::vector<std::pair<std::string, std::string>> expected{
      {"lr_scheduler_type", "cosine"},
      {"bf16", "True"},
      {"gradient_checkpointing", "True"},
      {"load_best_model_at_end", "True"},
      {"greater_is_better", "False"}};
  CHECK(changed == expected);
  // Limits that are not set.
  for (const auto& [name, value] : argument_texts({}))
    for (const std::string limit :
         {"mini_batch_size", "eval_steps", "save_total_limit", "max_length"})
      if (name == limit) CHECK_MESSAGE(value == "None", limit);
  const std::pair<std::string, std::string> set{"max_length", "64"};
  CHECK_EQ(changed_arguments({.max_length = 64}).at(0), set);
}

TEST_CASE("an encoder is saved with its card, and without one there is no README.md") {
  const TemporaryFolder folder;
  small_encoder().save(folder / "with", "a card");
  small_encoder().save(folder / "without");
  CHECK(read_file(folder / "with/README.md") == "a card");
  CHECK(!path_exists(folder / "without/README.md"));
}
