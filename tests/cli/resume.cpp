// `ringlet train --resume` compares contents: of data, teacher, tokenizer and settings of the
// model.
#include <filesystem>
#include <string>

#include "ringlet/core/io/file.h"
#include "ringlet/tests/cli/program.h"
#include "ringlet/tests/files.h"

namespace fs = std::filesystem;
using ringlet::read_file;
using ringlet::write_file;

namespace {

constexpr const char* kRows =
    "sentence1,sentence2,label\na dog,a cat,0\na cat,a dog,1\nthe dog,the cat,0\nthe cat,a dog,1\n";

/// A run of two steps, complete: --resume accepts its checkpoint or refuses it.
struct Fixture {
  TemporaryFolder folder;
  std::string data = path("data.csv");

  Fixture() { write_file(data, kRows); }

  std::string path(const std::string& name) const { return (folder / name).string(); }
  Outcome train(const std::string& model, const std::string& file, const Words& more) const {
    return run(str("train --model ", model, " --data ", file, " --batch 2 --max-steps 2 ",
                   "--save-steps 2 --eval-strategy no --no-progress --output ", path("out")) +
               more);
  }
  void check_refused(const Outcome& outcome, const std::string& difference) const {
    CHECK_EQ(outcome.code, 2);
    CAPTURE(outcome.err);
    CHECK(contains(outcome.err, "/checkpoint-2: was trained with " + difference));
    CHECK_EQ(count(outcome.err, "\n"), 1);
  }
  void replace(const std::string& file, const std::string& from, const std::string& to) const {
    std::string text = read_file(file);
    const std::size_t at = text.find(from);
    REQUIRE_NE(at, text.npos);
    write_file(file, text.replace(at, from.size(), to));
  }
};

}  // namespace

TEST_CASE_FIXTURE(Fixture,
                  "a run goes on with the same rows under any path, not with edited ones") {
  REQUIRE_EQ(train("tiny", data, {}).code, 0);
  const auto resume = [&](const std::string& file, const Words& more = {}) {
    return train("tiny", file, more + "--resume");
  };
  CHECK_EQ(resume((folder / "." / "data.csv").string()).code, 0);
  fs::copy(data, path("copy.txt"));
  CHECK_EQ(resume(path("copy.txt")).code, 0);
  check_refused(resume(data, "--pooling cls"), "encoder (--model, --pooling, --normalize) MPNet");
  check_refused(resume(data, "--normalize"), "encoder (--model, --pooling, --normalize) MPNet");
  const std::string rows = "--data 4 rows, SHA-256 ";
  replace(data, "the cat,a dog", "a dog,the cat");
  check_refused(resume(data), rows);
  write_file(data, kRows);
  replace(data, "a cat,0", "a cat,1");
  check_refused(resume(data), rows);
  write_file(data, kRows);
  CHECK_EQ(resume(data).code, 0);
}

TEST_CASE_FIXTURE(Fixture, "a run goes on with the same model and teacher under any path") {
  std::string student = path("student"), teacher = path("teacher");
  fs::copy(ringlet::tests_file("oracles/mpnet"), student, fs::copy_options::recursive);
  fs::copy(ringlet::tests_file("oracles/xlmr"), teacher, fs::copy_options::recursive);
  write_file(data,
             "sentence1,sentence2\na dog,A DOG\na cat,A CAT\nthe dog,THE DOG\nthe cat,THE CAT\n");
  const auto run_with = [&](const Words& more) {
    return train(student, data + ":mse", more + ("--teacher " + teacher));
  };
  REQUIRE_EQ(run_with({}).code, 0);
  const auto moved = [&](std::string& model) {
    fs::rename(model, model + "-moved");
    model += "-moved";
  };
  moved(student);
  moved(teacher);
  CHECK_EQ(run_with("--resume").code, 0);
  replace(student + "/config.json", "1e-05", "1e-06");
  check_refused(run_with("--resume"), "encoder (--model, --pooling, --normalize) MPNet");
  replace(student + "/config.json", "1e-06", "1e-05");
  replace(student + "/tokenizer.json", "\"the\"", "\"thx\"");
  check_refused(run_with("--resume"), "tokenizer (--model, --vocab) SHA-256 ");
  replace(student + "/tokenizer.json", "\"thx\"", "\"the\"");
  write_file(teacher + "/notes.txt", "other");
  check_refused(run_with("--resume"), "--data 4 rows, SHA-256 ");
}
