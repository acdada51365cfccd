// The throughput bench, run as a user would.
#include <filesystem>
#include <nlohmann/json.hpp>

#include "ringlet/tests/cli/program.h"

namespace fs = std::filesystem;

namespace {

/// The only row of a short run.
nlohmann::json measured(const TemporaryFolder& folder, std::vector<std::string> more) {
  const std::string rows = (folder / "rows.json").string();
  std::vector<std::string> command{"--batch",  "2", "--devices", "1", "--rounds", "1",
                                   "--warmup", "0", "--steps",   "2", "--json",   rows};
  command.insert(command.end(), more.begin(), more.end());
  const Outcome outcome = run_program(RINGLET_THROUGHPUT, command);
  INFO(outcome.err);
  REQUIRE_EQ(outcome.code, 0);
  return nlohmann::json::parse(ringlet::read_file(rows))["rows"].at(0);
}

}  // namespace

TEST_CASE("throughput takes the transformer from where modules.json says it is") {
  const TemporaryFolder folder;
  const fs::path model = folder / "model";
  fs::copy(fs::path(RINGLET_TESTS_DIR) / "oracles/bert", model, fs::copy_options::recursive);
  fs::create_directory(model / "0_Transformer");
  for (const char* file : {"config.json", "model.safetensors", "tokenizer.json"})
    fs::rename(model / file, model / "0_Transformer" / file);
  nlohmann::json modules = nlohmann::json::parse(ringlet::read_file(model / "modules.json"));
  modules[0]["path"] = "0_Transformer";
  ringlet::write_file(model / "modules.json", modules.dump());
  const nlohmann::json row = measured(folder, {"--model", model.string()});
  CHECK(row["sentences_per_s"] == doctest::Approx(2 * row["pairs_per_s"].get<double>()));
}

TEST_CASE("throughput counts all texts of a triplet") {
  const TemporaryFolder folder;
  ringlet::write_file(folder / "triplets.tsv",
                      "anchor\tpositive\tnegative\na\tb\tc\nd\te\tf\ng\th\ti\nj\tk\tl\n");
  const nlohmann::json row =
      measured(folder, {"--model", "tiny", "--data", (folder / "triplets.tsv").string()});
  CHECK(row["sentences_per_s"] == doctest::Approx(3 * row["pairs_per_s"].get<double>()));
}
