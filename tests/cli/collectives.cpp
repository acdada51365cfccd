// The collectives bench, run as a user would.

#include "ringlet/core/io/json.h"
#include "ringlet/tests/cli/program.h"

TEST_CASE("collectives measures nothing at all, then one element and up") {
  const TemporaryFolder folder;
  const std::string rows = (folder / "rows.json").string();
  const Outcome outcome = run_program(
      RINGLET_COLLECTIVES, "-b 0 -e 100 -f 4 --rounds 1 --seconds 0.001 --no-mpi --json " + rows);
  INFO(outcome.err);
  REQUIRE_EQ(outcome.code, 0);
  const auto written = ringlet::Json::parse(ringlet::read_file(rows));
  std::vector<std::int64_t> direct;
  for (const auto& row : written["rows"])
    if (row["algorithm"] == "direct") direct.push_back(row["bytes"].integer());
  CHECK(direct == std::vector<std::int64_t>{0, 4, 16, 64});
  // The copies are the reference of the other rows.
  for (const auto& row : written["rows"]) CHECK(row.contains("of_copy") == (row["bytes"] > 0));
}

TEST_CASE(
    "collectives says in a line why no row is of one launch, and refuses to measure only those" *
    doctest::test_suite("host")) {
  const TemporaryFolder folder;
  const std::string rows = (folder / "rows.json").string();
  const std::string why = "they are for ranks on GPUs (--device cuda), and these are on a CPU";
  const Words few = "-b 4 -e 4 --rounds 1 --seconds 0.001 --no-mpi --json " + rows;
  const Outcome all = run_program(RINGLET_COLLECTIVES, few);
  CHECK_EQ(all.code, 0);
  CHECK(contains(all.out, "\nNo in-kernel ring and direct: " + why + ".\n"));
  CHECK_EQ(ringlet::Json::parse(ringlet::read_file(rows))["left_out"]["in-kernel"], why);
  const Outcome alone = run_program(RINGLET_COLLECTIVES, "--algorithm in-kernel");
  CHECK_EQ(alone.code, 2);
  CHECK_EQ(alone.err, "collectives: --algorithm in-kernel: " + why + "\n");
}
