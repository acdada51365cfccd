#include <string>

#include "ringlet/tests/cli/program.h"

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
