// Ranks as processes that share one GPU, over NCCL's sockets: each reports a different host, or
// NCCL refuses the second. RINGLET_RANK_PROGRAM is tests/comm/rank_program.cpp.
#include <doctest/doctest.h>

#include <chrono>
#include <csignal>

#include "ringlet/core/base/error.h"
#include "ringlet/core/device/backend.h"
#include "ringlet/tests/cli/program.h"
#include "ringlet/tests/cli/training.h"

namespace {

Outcome share_gpu(const std::string& ranks, const Words& more = {}) {
  return run_program(
      "env", Words(str("CUDA_VISIBLE_DEVICES=0 ", ringlet_program(), " run --nproc-per-node ",
                       ranks, " " RINGLET_RANK_PROGRAM " nccl")) +
                 more);
}

bool has_gpu() {
  if (ringlet::has_backend(ringlet::DeviceType::cuda) &&
      ringlet::backend(ringlet::DeviceType::cuda).device_count() > 0)
    return true;
  MESSAGE("skipped: no CUDA device");
  return false;
}

}  // namespace

TEST_CASE("two and four processes on one GPU sum over NCCL to a CPU's bits") {
  if (!has_gpu()) return;
  for (const int ranks : {2, 4}) {
    const Outcome outcome = share_gpu(std::to_string(ranks));
    CAPTURE(outcome.err);
    CHECK(outcome.code == 0);
    for (int rank = 0; rank < ranks; ++rank)
      CHECK(contains(outcome.out, str("rank ", rank, " of ", ranks, ": a CPU's bits, over nccl")));
  }
}

TEST_CASE("two processes on one GPU that are no hosts of their own are told so before NCCL is") {
  if (!has_gpu()) return;
  const TemporaryFolder folder;
  const Words job = str("-u NCCL_HOSTID CUDA_VISIBLE_DEVICES=0 ", ringlet_program(),
                        " run --nproc-per-node 2 ", ringlet_program());
  const Outcome outcome =
      run_program("env", job + tiny_training(folder / "out", 1, "--strategy ddp --device cuda"));
  CAPTURE(outcome.err);
  CHECK(outcome.code == 2);
  CHECK(contains(outcome.err, "rank 0 (on its cuda:0) and rank 1 (on its cuda:0) share the GPU "));
}

// Checks the other rank's own report after the end of its communicator, since the launcher also
// ends that rank.
TEST_CASE("a process that is killed ends the others while their GPUs wait for it") {
  if (!has_gpu()) return;
  const auto start = std::chrono::steady_clock::now();
  const Outcome outcome = share_gpu("2", "1 kill");
  CAPTURE(outcome.err);
  CHECK(outcome.code == 128 + SIGKILL);
  CHECK(contains(outcome.err, "rank 1"));
  CHECK(contains(outcome.err, "[0] rank_program: "));
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  CHECK(took < std::chrono::seconds(60));
  MESSAGE("figure: seconds of a run in which a rank is killed = ", took.count());
}

TEST_CASE("a process that stops ends the others by the group's timeout") {
  if (!has_gpu()) return;
  const auto start = std::chrono::steady_clock::now();
  const Outcome outcome = share_gpu("2", "1 stop");
  CAPTURE(outcome.err);
  CHECK(outcome.code != 0);
  CHECK(contains(outcome.err, "[0] rank_program: "));
  CHECK(contains(outcome.err, " waited 10 s for "));
  CHECK(std::chrono::steady_clock::now() - start < std::chrono::seconds(90));
}
