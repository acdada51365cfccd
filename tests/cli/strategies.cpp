// `ringlet train --strategy`: it starts its ranks itself; the same bytes under every strategy.
#include <algorithm>
#include <csignal>
#include <filesystem>

#include "ringlet/tests/cli/background.h"
#include "ringlet/tests/cli/program.h"
#include "ringlet/tests/cli/training.h"
#include "ringlet/train/checkpoint/checkpoint.h"
#include "ringlet/train/parallel/strategy_name.h"

namespace fs = std::filesystem;

namespace {

using ringlet::train::kStrategies;

constexpr int kSteps = 4;
const std::string kOfProcesses = kStrategies.list_from(ringlet::train::Strategy::ddp);

Words training(const fs::path& output, const Words& more) {
  return short_training(output, kSteps, more + "--eval-steps 2 --save-steps 2");
}

Outcome train(const fs::path& output, const Words& more) { return run(training(output, more)); }

}  // namespace

TEST_CASE("on two devices every strategy writes the same model and the same metrics") {
  const TemporaryFolder folder;
  std::string model, table;
  for (std::size_t i = kStrategies.all.size(); --i > 0;) {  // all but none
    const std::string strategy(kStrategies.all[i]);
    CAPTURE(strategy);
    const fs::path output = folder / strategy;
    const Outcome outcome = train(output, str("--strategy ", strategy, " --devices 2"));
    REQUIRE_EQ(outcome.code, 0);
    // Only one rank prints.
    CHECK(outcome.out.starts_with("4 steps, mean loss"));
    CHECK(std::count(outcome.out.begin(), outcome.out.end(), '\n') == 1);
    const std::string bytes = weights_in(output);
    const std::string found =
        ringlet::read_file(output / "eval/similarity_evaluation_sts-dev_results.csv");
    if (model.empty()) model = bytes, table = found;
    CHECK((model == bytes));
    // DP deals the evaluated rows by their tokens, the others by rank.
    if (ringlet::has_shape_free_products || strategy != "dp") CHECK(table == found);
  }
}

// Processes need a GPU each.
TEST_CASE("under a launcher it is one of the ranks, and writes what ranks of its own would" *
          doctest::test_suite("host")) {
  const TemporaryFolder folder;
  const fs::path own = folder / "own", launched = folder / "launched";
  REQUIRE_EQ(train(own, "--strategy ddp --devices 2").code, 0);
  const Outcome outcome = run(str("run --nproc-per-node 2 ", ringlet_program()) +
                              training(launched, "--strategy fsdp"));
  REQUIRE_EQ(outcome.code, 0);
  CHECK((weights_in(own) == weights_in(launched)));
}

TEST_CASE("FSDP's units are chosen by class and by size, and change a clipped norm alone") {
  const TemporaryFolder folder;
  const auto fsdp = [&](const char* name, const Words& more) {
    return train(folder / name, more + "--strategy fsdp --devices 2");
  };
  const Words units("--fsdp-units MPNetLayer --fsdp-min-num-params 3000");
  REQUIRE_EQ(fsdp("units", units + "--clip 0").code, 0);
  REQUIRE_EQ(fsdp("layers", "--clip 0").code, 0);
  CHECK((weights_in(folder / "units") == weights_in(folder / "layers")));
  const std::string classes = fsdp("absent", "--fsdp-units BertLayer").err;
  CHECK(contains(classes, "ringlet: --fsdp-units: no module is a 'BertLayer'; expected some of "));
  CHECK(contains(classes, ", MPNetLayer, "));
  CHECK_EQ(count(classes, "\n"), 1);
  REQUIRE_EQ(fsdp("clipped", units).code, 0);
  const Outcome other = fsdp("clipped", "--fsdp-min-num-params 3000 --resume");
  CHECK_EQ(other.code, 2);
  CHECK(contains(other.err,
                 ": was trained with units (--fsdp-units, --fsdp-min-num-params) classes "
                 "MPNetLayer; elements 3000, now classes ; elements 3000\n"));
}

TEST_CASE("--mesh has the bytes of one device along pipe, and --tensor-sequence adds otherwise") {
  const TemporaryFolder folder;
  const auto weights = [&](const char* name, const Words& more) {
    const Outcome outcome = train(folder / name, more + "--gradient-accumulation-steps 2");
    INFO(outcome.err);
    REQUIRE_EQ(outcome.code, 0);
    return weights_in(folder / name);
  };
  CHECK((weights("pipe", "--mesh pipe=2 --pipeline-schedule gpipe") == weights("one", {})));
  const std::string tensor = weights("tensor", "--mesh tensor=2");
  const std::string sequence = weights("sequence", "--mesh tensor=2 --tensor-sequence");
  CHECK((tensor != sequence));
  CHECK((weights("both", "--mesh pipe=2,tensor=2 --tensor-sequence") == sequence));
  check_refused(train(folder / "out", "--mesh pipe=2 --strategy none"),
                "--mesh pipe=2: needs a --strategy of several processes: " + kOfProcesses);
}

TEST_CASE("an error of a mesh that ranks find names the option" * doctest::test_suite("host")) {
  const TemporaryFolder folder;
  const auto refuse = [&](const Words& options, const std::string& line) {
    check_refused(train(folder / "out", options), line);
  };
  refuse("--mesh tensor=3", "--mesh tensor=3: expected a divisor of the model's 4 heads");
  refuse("--mesh pipe=3",
         "--mesh pipe: expected at least one layer in each of 3 stages, the model has 2");
  refuse("--mesh pipe=2 --pipeline-layers 1,2", "--pipeline-layers: expected the sum 2, found 3");
  refuse("--mesh pipe=2 --pipeline-schedule interleaved-1f1b --gradient-accumulation-steps 3",
         "--gradient-accumulation-steps 3: expected a multiple of 2, the ranks along pipe, for "
         "pipeline schedule interleaved-1f1b");
  refuse("--mesh pipe=2 --pipeline-schedule zero-bubble --strategy fsdp",
         "--pipeline-schedule zero-bubble: its backward has two parts; expected a strategy other "
         "than fsdp and no gradient checkpointing");
}

TEST_CASE("transport and algorithm are those asked for, and named" * doctest::test_suite("host")) {
  const TemporaryFolder folder;
  const auto said = [&](const Words& more) {
    static int run = 0;
    const fs::path output = folder / std::to_string(run++);
    const Outcome outcome = train(output, "--strategy ddp --devices 2" + more);
    INFO(outcome.err);
    REQUIRE_EQ(outcome.code, 0);
    const std::size_t at = outcome.out.find("; 2 ranks over ");
    REQUIRE(at != std::string::npos);
    return outcome.out.substr(at, outcome.out.find("; wrote") - at);
  };
  CHECK_EQ(said({}), "; 2 ranks over shm, direct");
  CHECK_EQ(said("--transport gloo --algorithm ring"), "; 2 ranks over gloo, ring");
}

TEST_CASE("DDP's and FSDP's own options change no bit, and no other strategy takes them") {
  const TemporaryFolder folder;
  const auto weights = [&](const char* name, Words more) {
    const Outcome outcome = train(folder / name, more + "--devices 2");
    INFO(outcome.err);
    REQUIRE_EQ(outcome.code, 0);
    return weights_in(folder / name);
  };
  const std::string usual = weights("usual", "--strategy ddp");
  CHECK((weights("ddp", "--strategy ddp --bucket-cap-mb 0.01") == usual));
  CHECK(
      (weights("fsdp", "--strategy fsdp --reshard-after-forward false --prefetch false") == usual));
  const auto refuse = [&](Words options, const std::string& line) {
    check_refused(train(folder / "out", options), line);
  };
  refuse("--strategy ddp --fsdp-units MPNetLayer",
         "--fsdp-units MPNetLayer: needs --strategy fsdp");
  refuse("--fsdp-min-num-params 9", "--fsdp-min-num-params 9: needs --strategy fsdp");
  refuse("--strategy fsdp --bucket-cap-mb 4", "--bucket-cap-mb 4: needs --strategy ddp");
  refuse("--bucket-cap-mb 0.5", "--bucket-cap-mb 0.5: needs --strategy ddp");
  refuse("--mesh data=2 --tensor-sequence",
         "--tensor-sequence: expected a mesh with tensor=2 or more");
  refuse("--strategy zero2 --reshard-after-forward false",
         "--reshard-after-forward false: needs --strategy fsdp");
  refuse("--strategy dp --prefetch true", "--prefetch true: needs --strategy fsdp");
  CHECK_EQ(train(folder / "out", "--strategy fsdp --prefetch perhaps").code, 2);
  CHECK_EQ(train(folder / "out", "--strategy ddp --bucket-cap-mb 0").code, 2);
  CHECK_FALSE(fs::exists(folder / "out"));
}

TEST_CASE("logical ranks that are not defined are refused, and so are others in a resumed run" *
          doctest::test_suite("host")) {
  const TemporaryFolder folder;
  const auto refuse = [&](const Words& options, const std::string& line) {
    check_refused(train(folder / "out", "--logical-ranks 4 " + options),
                  "--logical-ranks 4: expected " + line);
  };
  refuse("--strategy ddp --devices 5", "at least the 5 devices");
  refuse("--strategy dp --devices 2", "another strategy than dp");
  refuse("--mesh pipe=2", "neither pipe nor tensor in the mesh");
  refuse("--strategy ddp --devices 2 --algorithm ring", "algorithm direct, found ring");
  REQUIRE_EQ(train(folder / "run", "--logical-ranks 4").code, 0);
  const Outcome other = train(folder / "run", "--logical-ranks 2 --resume");
  CHECK_EQ(other.code, 2);
  CHECK(contains(other.err, ": was trained with --logical-ranks 4, now 2; rows of a step"));
}

TEST_CASE("--timeout is how long ranks wait for one that has stopped" *
          doctest::test_suite("host")) {
  const TemporaryFolder folder;
  const Words started{"sh", "-c", "echo pid $$; exec \"$0\" \"$@\"", ringlet_program()};
  Background job(str(ringlet_program(), " run --nproc-per-node 2 --grace 0.5") + started +
                 short_training(folder / "out", 4000, "--strategy ddp --timeout 5 --save-steps 1"));
  REQUIRE(job.says("[1] pid "));
  REQUIRE(Background::until(
      [&] { return fs::exists(ringlet::train::checkpoint_path(folder / "out", 2)); }));
  const std::string out = job.out();
  REQUIRE_EQ(::kill(pids_in(out.substr(out.find("[1] pid "))).at(0), SIGSTOP), 0);
  CHECK(job.wait() > 0);
  const std::string err = job.err();
  CHECK_MESSAGE(contains(err, ": rank 0 waited 5 s for rank 1; "), err);
}

TEST_CASE("options that several devices do not support are refused before anything is written" *
          doctest::test_suite("host")) {
  const TemporaryFolder folder;
  CHECK(contains(train(folder / "out", "--devices 2").err, "--devices 2: needs a --strategy"));
  CHECK_EQ(train(folder / "out", "--strategy fast").code, 2);
  check_refused(
      train(folder / "out", "--strategy ddp --devices 2 --transport nccl"),
      "--transport nccl: is for tensors on GPUs; expected auto, shm or gloo with --device cpu");
  check_refused(train(folder / "out", "--transport gloo"),
                "--transport gloo: needs a --strategy of several processes: " + kOfProcesses);
  check_refused(train(folder / "out", "--strategy dp --timeout 3"),
                "--timeout 3: needs a --strategy of several processes: " + kOfProcesses);
  CHECK_EQ(train(folder / "out", "--strategy ddp --algorithm native").code, 2);
  for (const char* devices : {"1", "3"})
    check_refused(train(folder / "out", str("--mesh pipe=2 --devices ", devices)),
                  str("--devices ", devices,
                      " --mesh pipe=2: expected a multiple of 2 ranks, found ", devices));
  for (const char* list : {"1,,1", "1,1,", ","})
    for (const char* option : {"--pipeline-layers", "--fsdp-units", "--matryoshka-dims"})
      check_refused(train(folder / "out", str(option, ' ', list)),
                    str(option, ": expected no empty value, found '", list, "'"));
  CHECK_FALSE(fs::exists(folder / "out"));
}
