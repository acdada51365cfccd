// The scaling model, run as a user would.
#include <nlohmann/json.hpp>

#include "ringlet/tests/cli/program.h"

TEST_SUITE_BEGIN("host");

TEST_CASE("scaling says of every figure that it is modelled, and writes and draws them") {
  const TemporaryFolder folder;
  const std::string json = (folder / "scaling.json").string();
  const std::string svg = (folder / "scaling.svg").string();
  const Outcome outcome = run_program(RINGLET_SCALING, {"--json", json, "--svg", svg});
  INFO(outcome.err);
  REQUIRE_EQ(outcome.code, 0);
  CHECK(outcome.out.find("| strategy | devices | pairs/s, modelled | speed-up, modelled |") !=
        std::string::npos);
  CHECK(outcome.out.find("Why they differ:\n\n- bytes") != std::string::npos);
  const auto written = nlohmann::json::parse(ringlet::read_file(json));
  CHECK(written["machines"].size() > 1);
  for (const auto& point : written["machines"][0]["modelled"])
    CHECK(point["pairs_per_s"].get<double>() > 0);
  CHECK(written["reference"].size() == 3);
  CHECK(ringlet::read_file(svg).find("speed-up, modelled") != std::string::npos);
}

TEST_CASE("scaling starts from the step that throughput measured") {
  const TemporaryFolder folder;
  const std::string measured = (folder / "throughput.json").string();
  const std::string json = (folder / "scaling.json").string();
  ringlet::write_file(measured, R"({"rows": [{"strategy": "none", "devices": 1, "dtype": "f32",
    "pairs_per_s": 100, "step_ms": {"median": 320, "forward": 90, "backward": 180,
    "optimizer": 50}}]})");
  const Outcome outcome =
      run_program(RINGLET_SCALING, {"--machine", "H200, bf16, mpnet-base", "--throughput", measured,
                                    "--devices", "1,2", "--json", json});
  INFO(outcome.err);
  REQUIRE_EQ(outcome.code, 0);
  const auto machines = nlohmann::json::parse(ringlet::read_file(json))["machines"];
  REQUIRE(machines.size() == 1);
  CHECK_EQ(machines[0]["step_of_one_device"], "measured");
  const auto& points = machines[0]["modelled"];
  CHECK(points.size() == 5);
  CHECK(points[0]["pairs_per_s"].get<double>() == doctest::Approx(100));
  CHECK(points[0]["compute_ms"].get<double>() == doctest::Approx(270));
}

TEST_CASE("a wrong option of scaling is one line, and nothing is written") {
  const TemporaryFolder folder;
  const auto refused = [](const std::vector<std::string>& command, const std::string& line) {
    const Outcome outcome = run_program(RINGLET_SCALING, command);
    CHECK_EQ(outcome.code, 2);
    CHECK_EQ(outcome.out, "");
    CHECK(outcome.err.starts_with("scaling: " + line));
    CHECK(outcome.err.find('\n') == outcome.err.size() - 1);
  };
  const std::string absent = (folder / "absent.json").string();
  refused({"--machines", "x"}, "unknown option '--machines'; did you mean --machine?");
  refused({"--machine", "abacus"}, "unknown machine 'abacus'; ");
  refused({"--throughput", absent}, "--throughput needs --machine: whose links and network");
  refused({"--devices", "0"}, "--devices: ");
  refused({"--data", absent}, absent + ": cannot open: No such file or directory");
  refused({"--json", (folder / "no/folder.json").string()}, (folder / "no").string());
  CHECK(folder.entries() == 0);
}

TEST_CASE("scaling's tables that could not be printed are no success") {
  const Outcome outcome = run_program(RINGLET_SCALING, {}, {.output_to = "/dev/full"});
  CHECK_EQ(outcome.code, 2);
  CHECK_EQ(outcome.err, "scaling: standard output: cannot write\n");
}

TEST_SUITE_END();
