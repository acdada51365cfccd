// The throughput bench's report of made-up rows.
#include "ringlet/bench/report.h"
#include "ringlet/core/io/json.h"

#include <doctest/doctest.h>

#include <sstream>
#include <string>

#include "../files.h"
#include "ringlet/core/io/file.h"
#include "ringlet/train/cli/machine.h"

using ringlet::bench::Measurement;
using ringlet::bench::replayed_line;
using ringlet::bench::Row;
using ringlet::bench::wrapped;
using ringlet::bench::write_json;

namespace {

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != text.npos;
}

Row row_of(const std::string& strategy, int devices, double ms, double replayed = 0) {
  Measurement one;
  one.step_ms = {ms, ms};
  one.phase_ms[0] = {1};
  one.pairs = 32.0 * devices;
  one.real_tokens = one.padded_tokens = 900;
  one.replayed = replayed;
  return {strategy, devices, "f32", "", true, {one}};
}

}  // namespace

TEST_CASE("speed-ups are over the step of one device, wherever in the table it is") {
  const std::vector<Row> rows{row_of("ddp", 2, 100), row_of("none", 1, 50, 1),
                              row_of("fsdp", 2, 200)};
  const std::string table = to_markdown(rows);
  CAPTURE(table);
  CHECK(contains(table, "| ddp      | 2       | 640.00  | 0 %    | 1.000    | 50 %      |"));
  CHECK(contains(table, "| none     | 1       | 640.00  | 0 %    | 1.000    | 100 %     |"));
  CHECK(contains(table, "| fsdp     | 2       | 320.00  | 0 %    | 0.500    | 25 %      |"));
}

TEST_CASE("without the row of one device there are no speed-ups") {
  const std::vector<Row> rows{row_of("ddp", 2, 100), row_of("fsdp", 2, 200)};
  CHECK(contains(to_markdown(rows),
                 "| ddp      | 2       | 640.00  | 0 %    | -        | -         |"));
  CHECK(contains(to_wide_markdown(rows), "| ddp      | 2       | f32   | 640.00  | -        |"));
  const TemporaryFolder folder;
  write_json(folder / "rows.json", rows, {});
  const auto json = ringlet::Json::parse(ringlet::read_file(folder / "rows.json"))["rows"];
  CHECK_FALSE(json[0].contains("speedup"));
}

TEST_CASE("the published rows stand next to ours, in at most 100 columns") {
  std::vector<Row> rows{row_of("none", 1, 1), row_of("unconnected", 64, 1),
                        row_of("dp", 64, 123456.7), row_of("ddp", 64, 1), row_of("fsdp", 64, 1)};
  for (Row& row : rows) row.rounds[0].exposed_ms = 12345.6;
  const std::string table = to_markdown(rows);
  CAPTURE(table);
  CHECK(contains(table, " | 1.000  | 100 %     |\n"));
  CHECK(contains(table, " | -      | -         |\n"));
  CHECK(contains(table, " | 1.349  | 34 %      |\n"));
  CHECK(contains(table, " | 2.562  | 64 %      |\n"));
  CHECK(contains(table, " | 2.122  | 53 %      |\n"));
  std::istringstream lines(table);
  for (std::string line; std::getline(lines, line);) CHECK(line.size() <= 100);
  CHECK(contains(to_wide_markdown(rows), "| HF Trainer samples/s* |"));
  const TemporaryFolder folder;
  write_json(folder / "rows.json", rows, {});
  const auto json = ringlet::Json::parse(ringlet::read_file(folder / "rows.json"))["rows"];
  CHECK_EQ(json[4]["published"]["speedup"], 2.122);
  CHECK_EQ(json[4]["published"]["samples_per_s"], 5782);
  CHECK_FALSE(json[1].contains("published"));
}

TEST_CASE("steps that vary too much make no ratio, and a warning names their rows") {
  std::vector<Row> rows{row_of("none", 1, 60), row_of("unconnected", 2, 60), row_of("ddp", 2, 62),
                        row_of("zero1", 2, 60)};
  rows[1].together = false;
  rows[2].rounds[0].step_ms = {57.4, 60, 61, 61.9, 61.9, 63, 64, 1579.2};
  const std::string table = to_markdown(rows), wide = to_wide_markdown(rows);
  CAPTURE(table);
  CHECK(contains(table, "| ddp         | 2       | 1034    | 2458 % | -        | -         |"));
  CHECK(contains(table, "| zero1       | 2       | 1067    | 0 %    | 2.000    | 100 %     |"));
  for (const std::string& text : {table, wide})
    CHECK(contains(text, " vary too much, or are too few: ddp (2458 % of 8 steps). Their\n"));
  CHECK(contains(wide, "| 61.9 (57.4-1579.2) | 2458 % |"));
  CHECK_EQ(share_of_machine(rows[2], rows), 0);
  CHECK_EQ(share_of_machine(rows[3], rows), 1);
  const TemporaryFolder folder;
  write_json(folder / "rows.json", rows, {});
  const auto json = ringlet::Json::parse(ringlet::read_file(folder / "rows.json"))["rows"];
  CHECK_FALSE(json[2].contains("speedup"));
  CHECK_EQ(json[2]["steady"], false);
  CHECK_EQ(json[3]["steady"], true);
  rows[0].rounds[0].step_ms = {60, 90, 60, 120};
  CHECK_FALSE(speedup(rows[3], rows));
  CHECK(contains(to_markdown(rows), "few: none (80 % of 4 steps), ddp ("));
}

TEST_CASE("one of many steps may take long, and one step alone tells of no variation") {
  Row row = row_of("none", 1, 60);
  row.rounds[0].step_ms = {60, 45, 74, 60};
  CHECK(row.step_spread() == doctest::Approx(29.0 / 60));
  CHECK(row.is_steady());
  row.rounds[0].step_ms[2] = 76;
  CHECK_FALSE(row.is_steady());
  row.rounds.resize(4, row_of("none", 1, 60).rounds[0]);
  row.rounds[1].step_ms = {60, 60, 60, 60, 60, 1000};  // of 14 steps two are left out
  CHECK(row.step_spread() == doctest::Approx(16.0 / 60));
  CHECK(row.is_steady());
  Row single = row_of("none", 1, 60);
  single.rounds[0].step_ms = {60};
  CHECK_FALSE(single.step_spread());
  CHECK_FALSE(single.is_steady());
  CHECK(contains(to_markdown(std::vector<Row>(1, single)), "none (1 step)"));
}

TEST_CASE("a line is broken at spaces, and longer words are left whole") {
  const std::string word(60, 'w'), path(120, 'p');
  CHECK_EQ(wrapped("a b"), "a b\n");
  CHECK_EQ(wrapped(word + " " + word), word + "\n" + word + "\n");
  CHECK_EQ(wrapped("in " + path + " of"), "in\n" + path + "\nof\n");
}

TEST_CASE("the report says which steps are replayed as graphs, and which are launched op by op") {
  const std::vector<Row> rows{row_of("none", 1, 50, 0.97), row_of("ddp", 2, 100),
                              row_of("fsdp", 2, 200)};
  CHECK_EQ(replayed_line(rows), "Replayed as graphs: `none`; launched op by op: `ddp`, `fsdp`.\n");
  CHECK_EQ(replayed_line({rows[1]}), "Launched op by op: `ddp`.\n");
  CHECK_EQ(replayed_line({rows[0]}), "Replayed as graphs: `none`.\n");
  const TemporaryFolder folder;
  write_json(folder / "rows.json", rows, {});
  const auto json = ringlet::Json::parse(ringlet::read_file(folder / "rows.json"));
  CHECK_EQ(json["replayed"], ringlet::Json{"none"});
  CHECK_EQ(json["rows"][2]["speedup"], 0.5);
  CHECK_FALSE(json.contains("machine"));
}

TEST_CASE("the report says how the ranks stray, where a row tells") {
  Row side = row_of("unconnected", 2, 100);
  side.together = false;
  side.rounds[0].rank_variance_ms2 = 9;
  const TemporaryFolder folder;
  write_json(folder / "rows.json", {row_of("none", 1, 50), side}, {});
  const auto rows = ringlet::Json::parse(ringlet::read_file(folder / "rows.json"))["rows"];
  CHECK_FALSE(rows[0].contains("spread"));
  CHECK(rows[1]["spread"].get<double>() == doctest::Approx(0.03));
}

TEST_CASE("the report describes the GPUs that it was measured on, and what joins them") {
  const ringlet::cuda::Info info{
      "13.0",
      "90a",
      "13.0",
      "580.95.05",
      "13.1.0",
      "2.27.5",
      {{"H200", 9, 0, 132, 1 << 30, {false, true}}, {"H100", 9, 0, 114, 1 << 29, {true, false}}}};
  const auto links = ringlet::Json::array(
      {{{"from", "cuda:0"}, {"to", "cuda:1"}, {"right", true}, {"bytes_per_second", 3e11}},
       {{"from", "cuda:1"}, {"to", "cuda:0"}, {"right", false}, {"error", "rain"}}});
  const TemporaryFolder folder;
  write_json(folder / "rows.json", {row_of("ddp", 2, 100)},
             {{"transport", "nccl"}, {"machine", ringlet::cli::machine_json(info, links)}});
  const auto json = ringlet::Json::parse(ringlet::read_file(folder / "rows.json"));
  CHECK_EQ(json["transport"], "nccl");
  const auto& machine = json["machine"];
  CHECK_EQ(machine["gpus"].size(), 2);
  CHECK_EQ(machine["gpus"][0]["model"], "H200");
  CHECK_EQ(machine["gpus"][1]["model"], "H100");
  CHECK_EQ(machine["gpus"][1]["peers"], ringlet::Json({true, false}));
  CHECK_EQ(machine["cuda"]["driver"], "13.0");
  CHECK_EQ(machine["cuda"]["driver_release"], "580.95.05");
  CHECK_EQ(machine["cuda"]["nccl"], "2.27.5");
  CHECK_EQ(machine["links"][0]["from"], "cuda:0");
  CHECK_EQ(machine["links"][0]["to"], "cuda:1");
  CHECK_EQ(machine["links"][0]["bytes_per_second"], 3e11);
  CHECK_EQ(machine["links"][1]["error"], "rain");
}
