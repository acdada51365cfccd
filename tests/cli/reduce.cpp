// `ringlet reduce` on the small published-style models of tests/oracles.
#include <fmt/format.h>

#include <filesystem>

#include "ringlet/core/io/json.h"
#include "ringlet/core/ops/matmul.h"
#include "ringlet/tests/cli/program.h"
#include "ringlet/tests/npy.h"
#include "ringlet/tests/oracle.h"
#include "ringlet/train/evaluators/pca.h"

namespace fs = std::filesystem;

namespace {

const std::string kUnreduced = ringlet::tests_file("oracles/mpnet");
const std::string kTwelveTexts = ringlet::tests_file("oracles/sentences.txt");

ringlet::Tensor encoded_by(const std::string& model, const Words& more = {}) {
  const TemporaryFolder folder;
  const fs::path output = folder / "e.npy";
  const Outcome outcome =
      run(str("encode ", kTwelveTexts, " --model ", model, " --output ", output.string()) + more);
  REQUIRE_EQ(outcome.code, 0);
  return read_npy(output);
}

}  // namespace

TEST_CASE("a reduced folder gives the embeddings projected by hand") {
  const TemporaryFolder folder;
  const fs::path model = folder / "model";
  fs::copy(kUnreduced, model, fs::copy_options::recursive);
  const ringlet::Tensor whole = encoded_by(model.string());  // (12, 32)
  ringlet::train::Pca pca(32);
  pca.add(whole);
  const ringlet::train::PrincipalComponents found = pca.components(5);
  // A folder that cuts embeddings is fitted to whole ones, and its reduction cuts none.
  ringlet::write_file(model / "config_sentence_transformers.json", R"({"truncate_dim": 3})");

  const std::string output = (folder / "reduced").string();
  const Words command =
      str("reduce ", model.string(), " --data ", kTwelveTexts, " --dim 5 --output ", output);
  const Outcome outcome = run(command);
  REQUIRE_EQ(outcome.code, 0);
  CHECK_EQ(outcome.err, "");
  CHECK_EQ(
      outcome.out,
      fmt::format("kept {:.2f} % of the variance of 12 texts in 5 of 32 dimensions; wrote {}\n",
                  100 * found.kept(), output));
  const ringlet::Tensor projected =
      ringlet::matmul(whole.to(ringlet::DType::f64), found.components, {.trans_b = true});
  ringlet::check_close(encoded_by(output), projected, 2e-6);
  check_refused(run(command),
                "--output " + output + ": the folder is not empty; remove it, or name another");

  const std::string white = (folder / "white").string();
  const auto summary =
      ringlet::Json::parse(run(str("reduce --model ", kUnreduced, " --data ", kTwelveTexts,
                                   " --dim 5 --whiten --json --output ", white))
                               .out);
  CHECK_EQ(summary["texts"], 12);
  CHECK_EQ(summary["from"], 32);
  CHECK_EQ(summary["dimension"], 5);
  CHECK_EQ(summary["variance_kept"].number(), doctest::Approx(found.kept()));
  const ringlet::Tensor whitened = encoded_by(white);
  for (std::int64_t i = 0; i < whitened.size(0); ++i) {
    double squares = 0;
    for (const float value : whitened[i].to_vector()) squares += double{value} * double{value};
    CHECK_EQ(squares, doctest::Approx(1));
  }
}

TEST_CASE("the texts of a data set are those of all its columns") {
  const TemporaryFolder folder;
  ringlet::write_file(folder / "pairs.csv", "sentence1,sentence2,score\na dog,a cat,1\nit,no,0\n");
  ringlet::write_file(folder / "texts.txt", "a dog\na cat\nit\nno\n");
  const auto reduced = [&](const char* data, const std::string& output) {
    REQUIRE_EQ(run(str("reduce ", kUnreduced, " --data ", (folder / data).string(),
                       " --dim 2 --output ", (folder / output).string()))
                   .code,
               0);
    return encoded_by((folder / output).string()).to_vector();
  };
  CHECK(reduced("pairs.csv", "a") == reduced("texts.txt", "b"));
}

TEST_CASE("a folder is written to its end, also after SIGTERM") {
  bool seen = false;  // half-written
  for (int i = 0; i < 100 && !seen; ++i) {
    const TemporaryFolder folder;
    const auto is_there = [&] {
      for (const auto& entry : fs::directory_iterator(folder.path()))
        seen = seen || entry.path().filename().string().starts_with(".reduced.");
      return seen || fs::exists(folder / "reduced");
    };
    run(str("reduce ", kUnreduced, " --data ", kTwelveTexts, " --dim 5 --output ",
            (folder / "reduced").string()),
        {.signal = SIGTERM, .when = is_there});
    CHECK_EQ(folder.entries(), 1);
    CHECK(fs::exists(folder / "reduced/model.safetensors"));
  }
  CHECK(seen);
}

TEST_CASE(
    "dimensions that the model or the texts do not have are refused, and nothing is written") {
  const TemporaryFolder folder;
  const std::string output = (folder / "reduced").string();
  const auto refused = [&](const std::string& more, const std::string& line) {
    check_refused(run(str("reduce ", kUnreduced, " --output ", output, ' ', more)), line);
    CHECK_FALSE(fs::exists(output));
  };
  refused("--dim 33 --data " + kTwelveTexts,
          "--data " + kTwelveTexts + ": expected at least 33 texts, found 12");
  ringlet::write_file(folder / "texts.txt", std::string(40, '\n'));
  const std::string same = (folder / "texts.txt").string();
  refused("--dim 33 --data " + same, "--dim 33: the model's embeddings have 32 numbers");
  refused("--dim 1 --data " + same,
          "principal components: expected embeddings that differ, found 40 equal ones");
  refused("--dim 0 --data " + kTwelveTexts,
          "--dim: expected a whole number from 1 to 65536, found '0'");
  refused("--dim 12 --whiten --data " + kTwelveTexts,
          "whitening to 12 dimensions: the embeddings vary in 11 only");
}
