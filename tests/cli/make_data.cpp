#include <filesystem>

#include "ringlet/tests/cli/program.h"
#include "ringlet/train/data/readers.h"

TEST_SUITE_BEGIN("host");

namespace fs = std::filesystem;

TEST_CASE("make-data writes a data set that the readers read, the same for the same seed") {
  const TemporaryFolder folder;
  const std::string data = (folder / "data").string();
  const Outcome outcome = run(str("make-data ", data, " --rows 30 --seed 5"));
  CHECK_EQ(outcome.code, 0);
  CHECK_EQ(outcome.err, "");
  CHECK_EQ(ringlet::train::read_dataset(folder / "data/nli-train.jsonl").size(), 30);
  CHECK_EQ(ringlet::train::read_dataset(folder / "data/sts-train.csv").size(), 10);

  REQUIRE_EQ(run(str("make-data ", (folder / "again").string(), " --rows=30 --seed=5")).code, 0);
  CHECK(ringlet::read_file(folder / "data/nli-train.jsonl") ==
        ringlet::read_file(folder / "again/nli-train.jsonl"));
}

TEST_CASE("make-data refuses folders that are not empty or cannot be written") {
  const TemporaryFolder folder;
  ringlet::write_file(folder / "precious", "");
  const std::string path = folder.path().string();
  check_refused(str("make-data ", path), "FOLDER " + path + ": the folder is not empty");
  check_refused(str("make-data ", path + "/precious/data"),
                "FOLDER " + path + "/precious/data: " + path + "/precious is no folder");
  CHECK_EQ(run("make-data /proc/data").code, 2);
  CHECK_EQ(folder.entries(), 1);
}

TEST_CASE("make-data leaves no half-written file on a full disk") {
  const TemporaryFolder folder;
  const Outcome outcome = run(str("make-data ", (folder / "data").string()), {.file_size = 10'000});
  CHECK_EQ(outcome.code, 2);
  CHECK(contains(outcome.err, "File too large"));
  CHECK(fs::is_empty(folder / "data"));
}

TEST_SUITE_END();
