// The GPU of each process under a launcher, if processes see other GPUs than their host.
// Needs delayed_ringlet as the program.
#include <string>

#include "ringlet/core/device/backend.h"
#include "ringlet/tests/cli/program.h"
#include "ringlet/tests/cli/training.h"

TEST_SUITE_BEGIN("host");

namespace {

const std::string kMpnetFolder = ringlet::tests_file("oracles/mpnet");

/// Runs the command on `ranks` ranks, each with these variables set: "NCCL_HOSTID=$RANK".
Outcome on_ranks(int ranks, const std::string& variables, const Words& command) {
  return run(Words(str("run --nproc-per-node ", ranks, " env -u NCCL_HOSTID")) +
             Words{"sh", "-c", variables + " exec \"$0\" \"$@\"", ringlet_program()} + command);
}

Words encode(const TemporaryFolder& folder, const std::string& name) {
  ringlet::write_file(folder / "lines", "a dog\ntwo cats\na\n");
  return str("encode ", (folder / "lines").string(), " --model ", kMpnetFolder, " --output ",
             (folder / name).string(), " --device cuda");
}

Outcome train(const TemporaryFolder& folder, const std::string& variables) {
  return on_ranks(2, variables, tiny_training(folder / "out", 1, "--strategy ddp --device cuda"));
}

}  // namespace

TEST_CASE("each process of a launcher may see one GPU alone, or fewer than there are processes") {
  const TemporaryFolder folder;
  REQUIRE_EQ(run(encode(folder, "alone.npy")).code, 0);
  for (const char* variables :
       {"CUDA_VISIBLE_DEVICES=$LOCAL_RANK", "CUDA_VISIBLE_DEVICES=3", "CUDA_VISIBLE_DEVICES=2,1"}) {
    CAPTURE(variables);
    const Outcome outcome = on_ranks(2, variables, encode(folder, "two.npy"));
    INFO(outcome.err);
    CHECK_EQ(outcome.code, 0);
    CHECK((ringlet::read_file(folder / "two.npy") == ringlet::read_file(folder / "alone.npy")));
  }
}

TEST_CASE("where processes share the GPUs that they see, one of them says so") {
  const TemporaryFolder folder;
  const std::string line = "the ranks of this host are more than the 2 CUDA devices that they see";
  for (const int ranks : {2, 3}) {
    CAPTURE(ranks);
    const Outcome outcome =
        on_ranks(ranks, "CUDA_VISIBLE_DEVICES=2,1", encode(folder, "shared.npy"));
    INFO(outcome.err);
    CHECK_EQ(outcome.code, 0);
    CHECK_EQ(count(outcome.err, line), ranks == 3 ? 1 : 0);
  }
}

TEST_CASE("two processes of a strategy that share a GPU are told which, and that is bad input") {
  const TemporaryFolder folder;
  const Outcome outcome = train(folder, "CUDA_VISIBLE_DEVICES=3");
  CHECK_EQ(outcome.code, 2);
  CHECK_MESSAGE(contains(outcome.err,
                         "rank 0 (on its cuda:0) and rank 1 (on its cuda:0) share the GPU "
                         "0000:03:00.0 of "),
                outcome.err);
}

TEST_CASE("processes with a GPU each, or on hosts of their own to NCCL, are left to NCCL") {
  if (ringlet::has_backend(ringlet::DeviceType::cuda)) {
    MESSAGE("skipped: NCCL would take the GPU that is here for those that stand in for it");
    return;
  }
  const TemporaryFolder folder;
  for (const char* variables : {"CUDA_VISIBLE_DEVICES=$LOCAL_RANK", "CUDA_VISIBLE_DEVICES=2,1",
                                "CUDA_VISIBLE_DEVICES=3 NCCL_HOSTID=rank-$RANK"}) {
    CAPTURE(variables);
    const Outcome outcome = train(folder, variables);
    CHECK_EQ(outcome.code, 1);  // NCCL finds no GPU, or is not installed
    CHECK_MESSAGE(contains(outcome.err, "NCCL"), outcome.err);
    CHECK_MESSAGE(!contains(outcome.err, "share the GPU"), outcome.err);
  }
}

TEST_SUITE_END();
