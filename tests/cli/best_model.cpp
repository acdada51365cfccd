// Evaluations, the best model and the model card by the command line.
#include <algorithm>

#include "ringlet/core/io/safetensors.h"
#include "ringlet/tests/cli/training.h"

namespace {

namespace fs = std::filesystem;

/// No evaluation is better than the first by the threshold, so that a run ends after the third.
const std::string kStops =
    "--eval-steps 2 --load-best-model-at-end --metric-for-best-model sts-dev_spearman_cosine "
    "--early-stopping-patience 2 --early-stopping-threshold 3";

/// The folders of checkpoints.
std::vector<std::string> checkpoints(const fs::path& output) {
  std::vector<std::string> names;
  for (const fs::path& path : ringlet::list_folder(output))
    if (const std::string name = path.filename().string(); name.starts_with("checkpoint-"))
      names.push_back(name);
  return names;
}

/// The step of the greatest figure in metrics.jsonl, the first of equal ones.
int best_step(const fs::path& output) {
  const std::vector<double> scores = column(output / "metrics.jsonl", "sts-dev_spearman_cosine");
  return 2 + 2 * static_cast<int>(std::max_element(scores.begin(), scores.end()) - scores.begin());
}

}  // namespace

TEST_CASE("a run stops early, with the best model and its card, alone and on two devices") {
  const TemporaryFolder folder;
  for (const std::string& devices : {std::string(), std::string("--strategy fsdp --devices 2")}) {
    CAPTURE(devices);
    const fs::path output = folder / (devices.empty() ? "one" : "two");
    const Outcome outcome = run(short_training(
        output, 40, str("--eval ", short_data(), "/nli-dev.jsonl ", kStops, " ", devices)));
    INFO(outcome.err);
    REQUIRE_EQ(outcome.code, 0);
    CHECK(outcome.out.starts_with("6 steps, "));
    const int best = best_step(output);
    const std::string checkpoint = str("checkpoint-", best);
    CHECK(std::ranges::count(checkpoints(output), checkpoint) == 1);
    // The saved model is that checkpoint's.
    const auto saved = ringlet::SafeTensors::open(output / "model/model.safetensors");
    const auto kept = ringlet::SafeTensors::open(output / checkpoint / "model.safetensors");
    const std::string name = "encoder.layer.0.attention.attn.q.weight";
    CHECK(saved.load(name).to_vector() == kept.load(name).to_vector());

    const std::string card = ringlet::read_file(output / "model/README.md");
    CHECK(card.starts_with("---\ntags:\n- sentence-transformers\n"));
    CHECK(contains(card, "\n- loss:SoftmaxLoss\n- loss:CosineSimilarityLoss\n"));
    CHECK(contains(card, "- `load_best_model_at_end`: True\n"));
    CHECK(contains(card, "- `save_steps`: 500\n"));
    CHECK_EQ(card.find("- `save_steps`"), card.rfind("- `save_steps`"));  // the default
    CHECK(contains(card, "sentence_transformer.evaluation.LabelAccuracyEvaluator"));
    CHECK(contains(card, str("| **", best, "** |")));
  }
}

TEST_CASE("a mistyped --metric-for-best-model is refused before the first step, with the names") {
  const TemporaryFolder folder;
  const std::vector<std::string> names{"eval_nli-dev_loss", "eval_sts-dev_loss", "nli-dev_accuracy",
                                       "sts-dev_pearson_cosine", "sts-dev_spearman_cosine"};
  std::string list;
  for (const std::string& name : names) list += (list.empty() ? "" : ", ") + name;
  const auto refused = [&](const std::string& options, const std::string& found) {
    check_refused(run(tiny_training(folder / "out", 2, options)),
                  str("--metric-for-best-model: expected one of ", list, ", found '", found, "'"));
    CHECK(!ringlet::path_exists(folder / "out/metrics.jsonl"));
  };
  refused("--metric-for-best-model sts-dev_spearman", "sts-dev_spearman");
  refused("--load-best-model-at-end", "loss");
  // All of them can be chosen.
  REQUIRE_EQ(run(tiny_training(folder / "all", 2)).code, 0);
  for (const std::string& name : names)
    CHECK_EQ(column(folder / "all/metrics.jsonl", name).size(), 1);
}

TEST_CASE("options of evaluations that would have no effect are refused") {
  const TemporaryFolder folder;
  const auto refused = [&](const Words& more, const std::string& line) {
    check_refused(run(tiny_training(folder / "out", 4, more)), line);
    CHECK(!ringlet::path_exists(folder / "out"));
  };
  refused("--eval-strategy epoch --eval-steps 2",
          "--eval-steps 2: needs --eval-strategy steps, found epoch");
  refused("--save-strategy best --save-steps 2",
          "--save-steps 2: needs --save-strategy steps, found best");
  refused("--save-strategy steps",
          "--save-strategy steps: expected --save-steps of at least 1, found 0");
  refused("--early-stopping-patience 2",
          "--early-stopping-patience: needs --metric-for-best-model or --load-best-model-at-end");
  refused("--greater-is-better true",
          "--greater-is-better: needs --metric-for-best-model or --load-best-model-at-end");
  refused("--load-best-model-at-end --eval-strategy no",
          "--load-best-model-at-end: expected --eval-strategy steps or epoch, found no");
  refused("--early-stopping-threshold 0.5",
          "--early-stopping-threshold 0.5: needs --early-stopping-patience");
}

TEST_CASE("batches can be grouped by label") {
  const TemporaryFolder folder;
  std::string rows = "sentence1,sentence2,label\n";
  for (int row = 0; row < 14; ++row) rows += str("a", row, ",b,", row < 10 ? 0 : 1, '\n');
  ringlet::write_file(folder / "rows.csv", rows);
  const auto train = [&](const std::string& more) {
    fs::remove_all(folder / "out");
    return run(str("train --model tiny --data ", (folder / "rows.csv").string(), " --output ",
                   (folder / "out").string(), " --no-progress ", more));
  };
  // Two pairs of each label; the other rows of label 0 are left over.
  const Outcome grouped = train("--batch 4 --batch-sampler group_by_label");
  CHECK(grouped.out.starts_with("2 steps, "));
  CHECK(contains(grouped.err, "epoch 1: 57.1 % of rows's 14 rows were used"));
  CHECK(train("--batch 4").out.starts_with("4 steps, "));
  check_refused(
      train("--batch 5 --batch-sampler group_by_label"),
      "--batch-sampler group_by_label: expected a batch of 4 rows or more, an even number, "
      "found 5");
}
