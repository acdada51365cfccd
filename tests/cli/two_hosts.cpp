// scripts/two_hosts.sh: `ringlet run --nnodes 2`, in two network namespaces if the user may create
// them, else over loopback. It reports the form.
#include <filesystem>

#include "ringlet/comm/stores/socket.h"
#include "ringlet/core/base/error.h"
#include "ringlet/tests/cli/background.h"
#include "ringlet/tests/cli/program.h"
#include "ringlet/tests/cli/training.h"
#include "ringlet/tests/comm/environment.h"

TEST_SUITE_BEGIN("host");

namespace {

/// The program on two ranks of each host.
Outcome on_two_hosts(const Words& command) {
  const Outcome outcome = with_environment({{"RINGLET", ringlet_program()}}, [&] {
    return run_program(RINGLET_TWO_HOSTS, "--nproc-per-node 2" + command);
  });
  MESSAGE(outcome.err.substr(0, outcome.err.find('\n')));  // the form in use
  return outcome;
}

}  // namespace

TEST_CASE("ranks of two hosts meet over gloo") {
  const Outcome outcome = on_two_hosts(str(RINGLET_RANK_PROGRAM, " group"));
  CHECK_EQ(outcome.code, 0);
  for (int rank = 0; rank < 4; ++rank)
    CHECK_EQ(count(outcome.out,
                   str('[', rank, "] rank ", rank, ": the sum is 6 over 4, gloo, cpu:0 with ")),
             1);
}

TEST_CASE("training on two hosts of two ranks writes the bytes of one host's four") {
  constexpr int kSteps = 3;
  const TemporaryFolder folder;
  const std::filesystem::path one = folder / "one";
  REQUIRE_EQ(run(short_training(one, kSteps, "--strategy ddp --devices 4")).code, 0);
  for (const std::string strategy : {"ddp", "fsdp"}) {
    CAPTURE(strategy);
    const std::filesystem::path two = folder / strategy;
    const Outcome outcome = on_two_hosts(Words{ringlet_program()} +
                                         short_training(two, kSteps, str("--strategy ", strategy)));
    CAPTURE(outcome.err);
    REQUIRE_EQ(outcome.code, 0);
    CHECK(outcome.out.starts_with("[0] 3 steps, mean loss"));
    CHECK((weights_in(two) == weights_in(one)));
  }
}

TEST_CASE("a port that is taken is another program's") {
  // The script searches ports from one derived from its process id; it waits until that is taken.
  const TemporaryFolder folder;
  const std::string go = (folder / "go").string();
  Background script({"sh", "-c", "until [ -e " + go + " ]; do sleep 0.01; done; exec \"$0\" \"$@\"",
                     RINGLET_TWO_HOSTS, "--nproc-per-node", "1", RINGLET_RANK_PROGRAM, "group"},
                    {{"RINGLET", ringlet_program()}, {"TWO_HOSTS", "loopback"}});
  const auto taken = ringlet::comm::listen_at("127.0.0.1", 20000 + script.pid() % 10000);
  ringlet::write_file(go, "");
  CHECK_EQ(script.wait(), 0);
  CAPTURE(script.err());
  for (int rank = 0; rank < 2; ++rank)
    CHECK_EQ(count(script.out(),
                   str('[', rank, "] rank ", rank, ": the sum is 1 over 2, gloo, cpu:0 with ")),
             1);
}

TEST_SUITE_END();
