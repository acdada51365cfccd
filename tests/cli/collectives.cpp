// The collectives bench, run as a user would.
#include <nlohmann/json.hpp>

#include "ringlet/tests/cli/program.h"

TEST_CASE("collectives measures nothing at all, then one element and up") {
  const TemporaryFolder folder;
  const std::string rows = (folder / "rows.json").string();
  const Outcome outcome =
      run_program(RINGLET_COLLECTIVES, {"-b", "0", "-e", "100", "-f", "4", "--rounds", "1",
                                        "--seconds", "0.001", "--no-mpi", "--json", rows});
  INFO(outcome.err);
  REQUIRE_EQ(outcome.code, 0);
  const auto written = nlohmann::json::parse(ringlet::read_file(rows));
  std::vector<std::int64_t> direct;
  for (const auto& row : written["rows"])
    if (row["algorithm"] == "direct") direct.push_back(row["bytes"]);
  CHECK(direct == std::vector<std::int64_t>{0, 4, 16, 64});
}
