#include <filesystem>
#include <map>
#include <string>

#include "ringlet/tests/cli/program.h"
#include "ringlet/tests/cli/training.h"

namespace fs = std::filesystem;

TEST_SUITE_BEGIN("host");

TEST_CASE("help and version are printed") {
  const Outcome help = run({"--help"});
  CHECK_EQ(help.code, 0);
  CHECK(contains(help.out, "make-data"));
  const Outcome version = run({"--version"});
  CHECK_EQ(version.code, 0);
  CHECK_EQ(version.out.substr(0, 8), "ringlet ");
}

TEST_CASE("unknown options and commands name the nearest one") {
  check_refused("info --jsno", "unknown option '--jsno'; did you mean --json?");
  check_refused("make-data --sead=3 x", "unknown option '--sead'; did you mean --seed?");
  check_refused(run({"inof"}), "unknown command 'inof'; did you mean info?");
  check_refused("trian --model x", "unknown command 'trian'; did you mean train?");
  check_refused("explain rign -n 3", "unknown command 'rign'; did you mean ring?");
  check_refused(run({"bake"}), "unknown command 'bake'; ringlet --help lists what there is");
  check_refused("info --colour",
                "unknown option '--colour'; ringlet info --help lists what there is");
  check_refused("train --model tiny --batch 4 --batch 8",
                "--batch: expected one value, found '4' and '8'");
  check_refused("search queries.txt --model folder",
                "--model: expected one value, found 'queries.txt' and 'folder'");
  for (const char* name : {"--learning-rate", "--learning_rate"})
    check_refused(str("train ", name, " 2e-5"),
                  str("unknown option '", name, "'; did you mean --lr?"));
  check_refused("train --max-steps", "--max-steps: expected a value");
  check_refused("info twice", "unknown argument 'twice'; ringlet info --help lists what there is");
  check_refused(run({}), "expected a command; ringlet --help lists them");
}

TEST_CASE("wrong values name the option and what was expected") {
  check_refused(run({"make-data"}), "FOLDER is required");
  check_refused("make-data x --rows 3",
                "--rows: expected a whole number from 30 to 1000000, found '3'");
  check_refused("make-data x --seed abc",
                "--seed: expected a whole number from 0 to 9223372036854775807, found 'abc'");
  for (const char* command : {"train", "make-data"})
    check_refused(str(command, " --seed -1"),
                  "--seed: expected a whole number from 0 to 9223372036854775807, found '-1'");
  check_refused("train --model tiny --reshard-after-forward maybe",
                "--reshard-after-forward: expected true or false, found 'maybe'");
  check_refused("train --model tiny --step-graphs on",
                "--step-graphs: unknown step graph mode 'on'; expected auto or off");
  check_refused("train --model tiny --max-steps 0",
                "--max-steps: expected a whole number from 1 to 1099511627776, found '0'");
  check_refused("train --model tiny --lr abc",
                "--lr: expected a number from 1e-12 to 10, found 'abc'");
  check_refused("train --model tiny --epochs 0",
                "--epochs: expected a number from 1e-06 to 1000000, found '0'");
  for (const auto& [option, range] :
       {std::pair("--warmup", "0 to 1000000000000"), std::pair("--lr", "1e-12 to 10"),
        std::pair("--timeout", "0.1 to 86400"), std::pair("--momentum", "0 to 1")})
    check_refused(str("train --model tiny ", option, " nan"),
                  std::string(option) + ": expected a number from " + range + ", found 'nan'");
}

TEST_CASE("standard output that cannot be written is an error") {
  const Outcome outcome = run({"info"}, {.output_to = "/dev/full"});
  check_refused(outcome, "standard output: cannot write");
}

TEST_SUITE_END();

namespace {

class ConfigFolder : public TemporaryFolder {
 public:
  Outcome train(const std::string& config, const Words& more = {}) const {
    ringlet::write_file(*this / "run.toml", config);
    return run(str("train --config ", file(), " --output ", (*this / "out").string()) + more);
  }
  std::string file() const { return (*this / "run.toml").string(); }
  /// The file is refused in one line, at this line of the file; nothing is written.
  void refuse(const std::string& config, const std::string& line) const {
    check_refused(train(config), file() + ":" + line);
    CHECK_FALSE(fs::exists(*this / "out"));
  }
};

}  // namespace

TEST_CASE("a run's options from a file have the bits of those on the command line") {
  const ConfigFolder folder;
  const std::string config =
      "# a small run\n"
      "model = \"tiny\"   # random weights\n"
      "batch = 8\n"
      "max-steps = 9\n"
      "\n"
      "no-shuffle = true\n"
      "no-progress = true\n"
      "padded = false\n"
      "eval-strategy = \"no\"\n"
      "lr = 1e-4\n"
      "schedule = 'cosine'\n";
  const Words more = "--max-steps 3";  // counts before the file
  const Outcome outcome = folder.train(config, more);
  CAPTURE(outcome.err);
  REQUIRE_EQ(outcome.code, 0);
  CHECK(outcome.out.starts_with("3 steps, "));
  REQUIRE_EQ(run(only_steps(folder / "given", 3, "--no-shuffle --lr 1e-4 --schedule cosine")).code,
             0);
  CHECK_EQ(weights_in(folder / "out"), weights_in(folder / "given"));
  REQUIRE_EQ(run(only_steps(folder / "other", 3, "--lr 1e-4 --schedule cosine")).code, 0);
  CHECK(weights_in(folder / "out") != weights_in(folder / "other"));
}

TEST_CASE("an array repeats an option, over several lines, too") {
  const ConfigFolder folder;
  for (const char* name : {"a #1.csv", "b.csv"})
    ringlet::write_file(folder / name, "sentence1,sentence2,score\na,b,1\nc,d,0\n");
  const Outcome outcome = folder.train(str("model = \"tiny\"\nbatch = 2\ndata = [\n  \"",
                                           (folder / "a #1.csv").string(), "\",  # the first\n  \"",
                                           (folder / "b.csv").string(), ":cosine\",\n]\n"));
  CAPTURE(outcome.err);
  CHECK_EQ(outcome.code, 0);
  CHECK(contains(outcome.err, "an epoch takes 2 steps: 2 of 2 rows of a #1, 2 of 2 of b\n"));
}

TEST_CASE("a wrong file of options is one line with the file's name and line" *
          doctest::test_suite("host")) {
  const ConfigFolder folder;
  folder.refuse("model = \"tiny\"\n\nepoch = 1\n",
                "3: unknown option 'epoch'; did you mean epochs?");
  folder.refuse("config = \"other.toml\"\n", "1: unknown option 'config'");
  folder.refuse("[train]\n", "1: expected a string in quotes, a number, true or false");
  folder.refuse("model = \"tiny\"\nbatch = \"many\"\n",
                "2: --batch: expected a whole number from 1 to 1048576, found 'many'");
  folder.refuse("data = []\n", "1: expected a value in the array");
  folder.refuse("data = [[\"a\"]]\n", "1: expected a string in quotes, a number, true or false");
  folder.refuse("padded = 2\n", "1: --padded: expected true or false, found '2'");
  // The parser's words, after the file and the line, then what a value is.
  for (const char* broken : {"model = \"tiny\"\nbatch = 8 9\n", "lr = 1e-4\nmodel = tiny\n",
                             "loss = \"softmax\"\nloss = \"mnrl\"\n"}) {
    const Outcome outcome = folder.train(broken);
    CHECK_EQ(outcome.code, 2);
    CHECK(outcome.err.starts_with(str("ringlet: ", folder.file(), ":2: ")));
    CHECK(outcome.err.ends_with("; a value is a text in quotes, a number, true or false\n"));
    CHECK_EQ(count(outcome.err, "\n"), 1);
  }
  folder.refuse("data = [\n\"a.csv:softmax:mnrl\"\n]\n",
                "2: --data: a.csv:softmax:mnrl: expected one loss, found two");
  folder.refuse("model = \"tiny\"\ndevices = 3\nmesh = \"pipe=2\"\n",
                "2: --devices 3 --mesh pipe=2: expected a multiple of 2 ranks, found 3");
  const Outcome absent = run("train --config absent.toml --model tiny");
  CHECK_EQ(absent.code, 2);
  CHECK(absent.err.starts_with("ringlet: absent.toml: "));
  CHECK_EQ(count(absent.err, "\n"), 1);
}

TEST_CASE("every recipe trains the tiny model on small files") {
  const TemporaryFolder folder;
  const auto write = [&](const std::string& name, const std::string& rows) {
    ringlet::write_file(folder / name, rows);
    return (folder / name).string();
  };
  const std::string nli =
      write("nli.csv", "sentence1,sentence2,label\na,b,0\nc,d,1\ne,f,2\ng,h,0\n");
  const std::string sts = write("sts.csv", "sentence1,sentence2,score\na,b,1\nc,d,0\ne,f,0.5\n");
  const std::string pairs = write("pairs.tsv", "anchor\tpositive\na\tb\nc\td\ne\tf\ng\th\n");
  const std::map<std::string, std::string> data{
      {"reference", str("--data ", nli, " --data ", nli, " --data ", sts)},
      {"nli", str("--data ", nli, " --data ", nli)},
      {"stsb", str("--data ", sts)},
      {"pairs", str("--data ", pairs)}};
  std::size_t recipes = 0;
  for (const auto& entry : fs::directory_iterator(RINGLET_RECIPES)) {
    const std::string name = entry.path().stem().string();
    CAPTURE(name);
    REQUIRE(data.contains(name));
    ++recipes;
    const std::string line = str("train --config ", entry.path().string(), " --batch 2 --eval ",
                                 sts, " --output ", (folder / name).string());
    // The data sets, which are not here, are all that the recipe lacks.
    const Outcome alone = run(str(line, " --model tiny --max-length 64"));
    CHECK_EQ(alone.code, 2);
    CHECK(contains(alone.err, "No such file"));
    const Outcome outcome =
        run(str(line, " --model tiny --max-length 64 --max-steps 2 ", data.at(name)));
    CAPTURE(outcome.err);
    CHECK_EQ(outcome.code, 0);
    CHECK(outcome.out.starts_with("2 steps, mean loss "));
  }
  CHECK_EQ(recipes, data.size());
}
