// The throughput table of ranks that a launcher started: one process per device; only one prints.
// On a GPU each would need a separate GPU.
#include <string>

#include "ringlet/core/base/error.h"
#include "ringlet/core/io/json.h"
#include "ringlet/tests/cli/program.h"

TEST_SUITE_BEGIN("host");

namespace {

Outcome launched_table(const Words& more) {
  return run("run --nproc-per-node 2 " RINGLET_THROUGHPUT
             " --model tiny --batch 2 --rounds 1 --steps 2" +
             more);
}

}  // namespace

TEST_CASE("under a launcher the ranks of the table are its processes, and one writes it") {
  const TemporaryFolder folder;
  const std::string file = (folder / "rows.json").string();
  const Outcome outcome = launched_table(str("--devices 2 --threads-per-device 1 --json ", file));
  INFO(outcome.err);
  REQUIRE_EQ(outcome.code, 0);
  CHECK_EQ(count(outcome.out, "| devices | pairs/s |"), 1);
  CHECK_EQ(count(outcome.out, "the ranks are the 2 processes of a launcher\n"), 1);
  CHECK_EQ(count(outcome.out, "\n[1] "), 0);
  const auto table = ringlet::Json::parse(ringlet::read_file(file));
  CHECK_EQ(table["ranks"], "processes");
  CHECK_EQ(table["threads_per_device"], "1");
  CHECK_EQ(table["link"]["ranks"], 2);
  Words strategies;
  for (const auto& row : table["rows"]) {
    strategies.push_back(row["strategy"].text());
    CAPTURE(strategies.back());
    CHECK_EQ(row["devices"], strategies.back() == "none" ? 1 : 2);
    CHECK(row["pairs_per_s"] > 0);
    const bool together = strategies.back() != "none" && strategies.back() != "unconnected";
    CHECK_EQ(row["algorithm"], together ? "direct over shm" : "");
    CHECK_EQ(row.contains("wire_bytes"), together);
  }
  CHECK_EQ(strategies, Words{"none", "unconnected", "ddp", "zero1", "fsdp"});
}

#if defined(RINGLET_TESTS_GLOO)
TEST_CASE("processes of a launcher speak as they are told to") {
  const TemporaryFolder folder;
  const std::string file = (folder / "rows.json").string();
  const Outcome outcome =
      launched_table(str("--strategy zero2 --transport gloo --algorithm ring --json ", file));
  INFO(outcome.err);
  REQUIRE_EQ(outcome.code, 0);
  const auto table = ringlet::Json::parse(ringlet::read_file(file));
  CHECK_EQ(table["rows"].at(0)["algorithm"], "ring over gloo");
}
#endif

TEST_CASE("figures that processes of a launcher cannot measure are refused in one line") {
  const auto refused = [](const Words& more, const std::string& line) {
    const Outcome outcome = launched_table(more);
    CHECK_EQ(outcome.code, 2);
    CHECK_MESSAGE(contains(outcome.err, "throughput: " + line + "\n"), outcome.err);
    CHECK_EQ(outcome.out, "");
  };
  refused("--devices 3", "--devices 3: the launcher started 2 ranks, a process for each device");
  refused("--strategy none,dp",
          "--strategy dp: has its devices in one process, and a launcher started 2; expected all, "
          "none, unconnected, ddp, zero1, zero2 or fsdp");
}

TEST_CASE("a file that the speaking process cannot write ends all, before anything is measured") {
  const TemporaryFolder folder;
  const std::string file = (folder / "absent" / "rows.json").string();
  const Outcome outcome = launched_table(str("--json ", file));
  CHECK_EQ(outcome.code, 2);
  CHECK_EQ(count(outcome.out, "| strategy |"), 0);
  CHECK_MESSAGE(contains(outcome.err, file), outcome.err);
}

TEST_SUITE_END();
