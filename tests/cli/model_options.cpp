// Pooling and prompts by the command line.
#include <filesystem>

#include "ringlet/core/io/json.h"
#include "ringlet/tests/cli/training.h"
#include "ringlet/tests/npy.h"

namespace fs = std::filesystem;

namespace {

const fs::path kSmallModel = ringlet::tests_file("oracles/mpnet");

/// A training of the small published-style model on pairs, or of random weights.
struct PairTraining {
  TemporaryFolder folder;

  PairTraining() {
    write("plain", "", "");
    write("prompted", "query: ", "text: ");
  }
  void write(const std::string& name, const std::string& anchors, const std::string& positives) {
    std::string rows = "anchor,positive\n";
    for (const char* row : {"a dog", "two cats", "the house", "one man"})
      rows += str(anchors, row, ',', positives, row, " is here\n");
    ringlet::write_file(file(name), rows);
  }
  std::string file(const std::string& name) const { return (folder / (name + ".csv")).string(); }
  Outcome train(const std::string& output, const Words& more, const fs::path& model = kSmallModel,
                const std::string& data = "plain") const {
    return run(str("train --batch 4 --max-steps 2 --no-progress --model ", model.string(),
                   " --data ", file(data), " --output ", (folder / output).string()) +
               more);
  }
  std::string weights(const std::string& output, const Words& more,
                      const fs::path& model = kSmallModel,
                      const std::string& data = "plain") const {
    const Outcome outcome = train(output, more, model, data);
    INFO(outcome.err);
    REQUIRE_EQ(outcome.code, 0);
    return weights_in(folder / output);
  }
};

ringlet::Json json_of(const fs::path& file) {
  return ringlet::Json::parse(ringlet::read_file(file));
}

}  // namespace

TEST_CASE("a new model pools and normalises as it is told, and its folder keeps that") {
  const PairTraining pairs;
  REQUIRE_EQ(pairs.train("new", "--pooling cls --normalize", "tiny").code, 0);
  const fs::path model = pairs.folder / "new/model";
  CHECK(json_of(model / "1_Pooling/config.json")["pooling_mode_cls_token"] == true);
  CHECK_EQ(json_of(model / "modules.json").size(), 3);
  check_refused(pairs.train("other", "--pooling last", "tiny"),
                "--pooling: unknown pooling 'last'; expected mean, cls or max");
}

TEST_CASE("a bare checkpoint pools as it is told, a folder with modules as they say") {
  const PairTraining pairs;
  const fs::path bare = pairs.folder / "bare";
  fs::copy(kSmallModel, bare, fs::copy_options::recursive);
  for (const char* file : {"modules.json", "config_sentence_transformers.json"})
    fs::remove(bare / file);
  const auto embeddings = [&](const fs::path& model, const Words& more) {
    const fs::path output = pairs.folder / "e.npy";
    const Outcome outcome =
        run(str("encode - --model ", model.string(), " --output ", output.string()) + more,
            {.input = "A dog runs.\n"});
    INFO(outcome.err);
    REQUIRE_EQ(outcome.code, 0);
    return read_npy(output).to_vector();
  };
  const auto maxima = embeddings(bare, "--pooling max --normalize");
  CHECK(maxima != embeddings(bare, "--normalize"));
  double norm = 0;
  for (const float value : maxima) norm += value * value;
  CHECK(norm == doctest::Approx(1));

  pairs.weights("out", "--pooling max --normalize --lr 1e-12 --optimizer sgd", bare);
  CHECK(embeddings(pairs.folder / "out/model", {}) == maxima);
  const std::string line = str(": expected random weights or a folder without modules.json, found ",
                               (kSmallModel / "modules.json").string());
  check_refused(pairs.train("refused", "--pooling max"), "--pooling" + line);
  check_refused(pairs.train("refused", "--normalize"), "--normalize" + line);
}

TEST_CASE("prompts before the texts trained on have the bits of texts that begin with them") {
  const PairTraining pairs;
  const std::string expected = pairs.weights("prompted", {}, kSmallModel, "prompted");
  CHECK(pairs.weights("texts", {"--prompt", "anchor=query: ", "--prompt", "=text: "}) == expected);
  CHECK(pairs.weights("plain", {}) != expected);

  const fs::path model = pairs.folder / "with prompts";
  fs::copy(kSmallModel, model, fs::copy_options::recursive);
  ringlet::write_file(model / "config_sentence_transformers.json",
                      R"({"prompts": {"query": "query: ", "document": "text: "}})");
  const std::string config = (pairs.folder / "run.toml").string();
  ringlet::write_file(config,
                      str("model = \"", model.string(), "\"\ndata = \"", pairs.file("plain"),
                          "\"\nbatch = 4\nmax-steps = 2\nno-progress = true\n"
                          "prompt-name = [\"anchor=query\", \"document\"]\n"));
  const fs::path output = pairs.folder / "names";
  const Outcome outcome = run(Words{"train", "--config", config, "--output", output.string()});
  INFO(outcome.err);
  REQUIRE_EQ(outcome.code, 0);
  CHECK(weights_in(output) == expected);
  CHECK(contains(ringlet::read_file(output / "model/README.md"),
                 "- `prompts`: {'': 'text: ', 'anchor': 'query: '}\n"));
}

TEST_CASE("a prompt that nothing has is refused before the first step") {
  const PairTraining pairs;
  const auto refused = [&](const Words& options, const std::string& line) {
    check_refused(pairs.train("out", options), line);
    CHECK(!ringlet::path_exists(pairs.folder / "out/metrics.jsonl"));
  };
  refused({"--prompt", "achor=query: "},
          "prompts (--prompt, --prompt-name): no data set has a column 'achor'; expected one of "
          "anchor, positive");
  refused({"--prompt-name", "title"},
          "--prompt-name title: prompt name 'title': expected one of 'document', 'query'");
  refused({"--prompt", "a", "--prompt", "b"},
          "--prompt b: expected one prompt for every column, found two");
}
