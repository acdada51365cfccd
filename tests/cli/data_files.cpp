#include <filesystem>

#include "ringlet/tests/cli/program.h"
#include "ringlet/train/data/readers.h"

namespace fs = std::filesystem;
using ringlet::write_file;

TEST_SUITE_BEGIN("host");

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
  check_refused(str("make-data ", path),
                "FOLDER " + path + ": the folder is not empty; remove it, or name another");
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

namespace {

const std::string kSmallEncoder = ringlet::tests_file("oracles/mpnet");

struct DataFiles {
  TemporaryFolder folder;
  std::string splits = path("splits.tsv"), plain = path("plain.csv"), own = path("own.csv");

  DataFiles() {
    write_file(splits,
               "split\tgenre\tscore\tsentence1\tsentence2\n"
               "train\tx\t4.5\tA dog.\t\"A \"\"big\"\" dog.\"\n"
               "train\tx\t0.5\tA dog.\tA cat.\n"
               "dev\tx\t3\tA boy.\tA child.\n"
               "dev\tx\t1\tA boy.\t\n");
    write_file(plain, "A dog.,A dog.,1\nA dog.,A cat.,0.2\n");
    write_file(own, "id,sentence1,sentence2,score\n1,a,b,0.5\n2,c,d,1\n");
  }
  std::string path(const std::string& name) const { return (folder / name).string(); }

  Outcome train(const Words& more) const {
    fs::remove_all(folder / "out");
    return run(str("train --batch 2 --max-steps 1 --no-progress --model ", kSmallEncoder,
                   " --output ", path("out")) +
               more);
  }
  Outcome evaluate(const Words& more) const {
    return run(str("evaluate --model ", kSmallEncoder) + more);
  }
};

}  // namespace

TEST_CASE_FIXTURE(DataFiles, "train prints a line about each file, with the choices of a config") {
  const std::string config = path("run.toml");
  write_file(config, "data = [\"" + splits + ":cosine\", \"" + own + "\", \"" + plain +
                         "\"]\n"
                         "eval = \"" +
                         splits + "\"\nsplit = \"" + splits +
                         "=train\"\neval-split = \"dev\"\nscore-scale = \"" + plain + "=1\"\n");
  const Outcome outcome = train({"--config", config});
  CHECK_EQ(outcome.code, 0);
  const std::string columns =
                        "; columns split, score, sentence1, sentence2; without use: genre; "
                        "score scale 5, assumed (a column 'genre')",
                    skipped = ", 2 skipped (other splits)";
  CHECK_EQ(outcome.err,
           splits + ": 2 rows of split 'train'" + skipped + columns + '\n' + own +
               ": 2 rows; columns sentence1, sentence2, score; without use: id; score scale 1\n" +
               plain + ": 2 rows; columns sentence1, sentence2, score; score scale 1\n" + splits +
               ": 2 rows of split 'dev'" + skipped + columns + "; 1 empty text\n");
}

TEST_CASE_FIXTURE(DataFiles, "a choice that no file has a use for is refused") {
  check_refused(
      train({"--data", splits}),
      splits + ": expected --split with one of its splits 'dev' (2 rows), 'train' (2 rows)");
  check_refused(train({"--data", own, "--split", "train"}),
                "--split train: expected a file of --data with a column 'split', found none");
  check_refused(train({"--data", own, "--split", own + "=train"}),
                own + ": no column 'split' for --split train");
  check_refused(train({"--data", own, "--score-scale", "1", "--score-scale", splits + "=5"}),
                "--score-scale " + splits + "=5: expected a file with scores, found none");
  check_refused(train({"--data", splits, "--split", "a", "--split", "b"}),
                "--split b: expected one value for all files");
  CHECK_FALSE(fs::exists(folder / "out"));
  write_file(own, "sentence1,sentence2,label\na,b,0\nc,d,1\n");
  check_refused(evaluate({"--data", own, "--score-scale", "5"}),
                "--score-scale: " + own + " has no similarity scores");
  check_refused(evaluate({"--data", plain}),
                plain +
                    ": the scores lie in 0 to 1, but with no header a scale of 5 is assumed: "
                    "expected --score-scale 1 or 5");
}

TEST_CASE_FIXTURE(DataFiles, "evaluate, search and reduce print a line about each file") {
  const Outcome dev = evaluate({"--data", splits, "--split", "dev"});
  CHECK_EQ(dev.code, 0);
  CHECK(dev.out.starts_with("2 pairs of "));
  CHECK(dev.err.starts_with(splits + ": 2 rows of split 'dev', 2 skipped (other splits); "));
  CHECK(evaluate({"--data", plain, "--score-scale", "1"}).err.starts_with(plain + ": 2 rows; "));

  write_file(path("corpus.jsonl"),
             "{\"id\": \"1\", \"text\": \"A dog.\", \"title\": \"D\"}\n"
             "{\"id\": \"2\", \"text\": \" \"}\n");
  const Outcome found =
      run(str("search ", kSmallEncoder, " --queries - --corpus ", path("corpus.jsonl")),
          {.input = "dogs\n\n"});
  CHECK(found.err.starts_with("standard input: 1 line, 1 skipped (empty text)\n" +
                              path("corpus.jsonl") +
                              ": 1 row, 1 skipped (empty text); columns id, text; without use: "
                              "title\n"));

  const Words reduce = str("reduce ", kSmallEncoder, " --dim 1 --output ", path("small"));
  const Outcome reduced = run(reduce + Words{"--data", splits, "--split", "train"});
  CHECK_EQ(reduced.code, 0);
  CHECK_EQ(reduced.err, splits +
                            ": 2 rows of split 'train', 2 skipped (other splits); columns "
                            "split, score, sentence1, sentence2; without use: genre\n");
  fs::remove_all(folder / "small");
  write_file(path("lines.txt"), "a\nb\n");
  check_refused(run(reduce + Words{"--data", path("lines.txt"), "--split", "train"}),
                "--split: " + path("lines.txt") + " has no columns");
}
