// The reference figures of the scaling model, and errors in its file.
#include <doctest/doctest.h>

#include <cmath>
#include <set>

#include "ringlet/bench/scaling_check.h"
#include "ringlet/bench/scaling_network.h"
#include "ringlet/core/error.h"
#include "ringlet/core/file.h"
#include "ringlet/models/transformer.h"
#include "ringlet/tests/files.h"

TEST_SUITE_BEGIN("host");

using ringlet::bench::Check;
using ringlet::bench::Entry;

namespace {

namespace fs = std::filesystem;
const fs::path kBench = RINGLET_BENCH_DIR;
Entry data() { return Entry::read(kBench / "data/scaling.json"); }

// "table, row" of figures with an error above `most`.
std::set<std::string> beyond(const std::vector<Check>& checks, double most) {
  std::set<std::string> out;
  for (const Check& check : checks) {
    const std::string name = check.table + ", " + check.row;
    INFO(name);
    if (check.fitted)
      CHECK(check.error() == doctest::Approx(0).epsilon(0.001));
    else if (std::abs(check.error()) > most)
      out.insert(name);
  }
  return out;
}

}  // namespace

TEST_CASE("BERT-large in f16 on A100s, as NVIDIA published it: within 5 % in every row") {
  std::vector<Check> checks = check_published(data());
  std::erase_if(checks,
                [](const Check& check) { return !check.table.starts_with("DGX A100, f16"); });
  CHECK(checks.size() == 18);
  CHECK(beyond(checks, 0.05).empty());
}

TEST_CASE("all that NVIDIA published of BERT-large: within 5 %, but for the rows named here") {
  const std::vector<Check> checks = check_published(data());
  CHECK(checks.size() == 42);
  // Beyond 64 GPUs TF32 at length 512 scales worse than f16, although f16 sends as much in half the
  // time. SQuAD's steps are short, and one device's rates are rounded to 12 and 52. MLPerf's rows
  // differ in how they pack sequences.
  CHECK(beyond(checks, 0.05) ==
        std::set<std::string>{
            "DGX A100, TF32, length 512, 128 devices", "DGX A100, TF32, length 512, 256 devices",
            "DGX-1 V100, f32, SQuAD, 8 devices", "DGX-1 V100, f16, SQuAD, 8 devices",
            "MLPerf, H100, 64 devices", "MLPerf, H100, 768 devices"});
  CHECK(beyond(checks, 0.30).empty());
}

TEST_CASE("two ranks on a CPU: within 10 % of what was measured, but for the rows named here") {
  const std::vector<Check> checks = check_strategies(data());
  CHECK(checks.size() == 21);
  // One wait per step for the slower rank explains neither ZeRO-1's waits nor FSDP's.
  CHECK(beyond(checks, 0.10) == std::set<std::string>{"minilm-l6, bf16, Zen 4, zero1 x 2",
                                                      "minilm-l6, f32, Zen 4, fsdp x 2"});
  CHECK(beyond(checks, 0.20).empty());
}

TEST_CASE("ring all-reduces of two ranks, from direct ones: within 10 % where both are steady") {
  std::vector<Check> steady = check_collectives(data());
  CHECK(steady.size() == 18);
  std::erase_if(steady, [](const Check& check) { return check.table != "shared memory, Zen 4"; });
  CHECK(beyond(steady, 0.10) == std::set<std::string>{"shared memory, Zen 4, ring, 4 KiB"});
}

TEST_CASE("the bytes that a rank sends are those that were counted") {
  const Entry all = data();
  const auto network = ringlet::bench::read_network(all, "mpnet-base");
  const auto link = ringlet::bench::read_link(all, "shared memory, Zen 4");
  const fs::path file = kBench / "results/cpu_strategies_mpnet_base_f32_zen4.json";
  const auto device = ringlet::bench::read_measured_step(file);
  CHECK(device.samples == doctest::Approx(32));
  int counted = 0;
  for (const Entry& row : Entry::read(file).list("rows")) {
    if (!row.has("wire_bytes")) continue;
    const auto strategy = ringlet::train::parse_strategy(row.text("strategy"));
    CHECK(model_step(device, network, link, strategy, 2).sent_bytes ==
          doctest::Approx(row.number("wire_bytes")).epsilon(0.01));
    ++counted;
  }
  CHECK(counted == 3);
}

TEST_CASE("the step of one device has separate phases: it is not a GPU's replayed one") {
  const TemporaryFolder folder;
  const std::string file = (folder / "report.json").string();
  ringlet::write_file(file, R"({"rows": [{"strategy": "none", "devices": 1, "dtype": "bf16",
    "pairs_per_s": 9000, "step_ms": {"median": 3, "data": 0}}, {"strategy": "unconnected",
    "devices": 2, "dtype": "bf16", "pairs_per_s": 12800,
    "step_ms": {"median": 5, "forward": 1, "backward": 3, "optimizer": 1}}]})");
  const auto device = ringlet::bench::read_measured_step(file);
  CHECK(device.samples == doctest::Approx(32));
  CHECK(device.backward_s == doctest::Approx(3e-3));
}

TEST_CASE("how ranks stray is what the file says, else what unconnected devices' rounds say") {
  const TemporaryFolder folder;
  const std::string file = (folder / "report.json").string();
  const auto read = [&](const std::string& none, const std::string& side, int rounds) {
    const std::string step = R"("dtype": "f32", "pairs_per_s": 100,
      "step_ms": {"median": 150, "forward": 40, "backward": 80, "optimizer": 30})";
    ringlet::write_file(file, R"({"rows": [{"strategy": "none", "devices": 1, )" + step + none +
                                  R"(}, {"strategy": "unconnected", "devices": 2, )" + step + side +
                                  "}]}");
    return ringlet::bench::read_measured_step(file, rounds).spread;
  };
  CHECK(read("", "", 1) == 0);
  CHECK(read(R"(, "spread": 0.03)", "", 1) == 0.03);
  CHECK(read(R"(, "spread": 0.03)", R"(, "spread": 0.02)", 1) == 0.02);
  // The mean of two has a spread of 20, one of them the root of 2 times that.
  const char* steps = R"(, "steps_ms": [90, 210, 110, 190])";
  CHECK(read("", steps, 2) == doctest::Approx(std::sqrt(2) * 20 / 150));
  CHECK(read("", R"(, "spread": 0.02)", 2) == 0.02);
  CHECK_THROWS_WITH_AS(read("", steps, 3),
                       (file + ": rows 2: expected steps_ms of 3 rounds").c_str(),
                       ringlet::InputError);
}

TEST_CASE("an encoder's network is that of its parameters") {
  for (const char* name : {"minilm-l6", "tiny"}) {
    CAPTURE(name);
    const auto config = ringlet::models::EncoderConfig::named(name);
    const auto network = ringlet::bench::network_of(config, 4, 900);
    double bytes = 0;
    for (const auto& parameter : ringlet::models::Transformer::create(config)->parameters())
      bytes += 4 * static_cast<double>(parameter.numel());
    // The model's units exclude MPNet's table of relative positions.
    CHECK(network.bytes() == doctest::Approx(bytes).epsilon(1e-4));
    CHECK(network.layers == config.num_hidden_layers);
    CHECK(network.row_bytes == doctest::Approx(4.0 * 900 * config.hidden_size));
  }
}

TEST_CASE("a file of the model that says something else is refused with the place") {
  const TemporaryFolder folder;
  const std::string file = (folder / "scaling.json").string();
  const auto refused = [&](const std::string& text, const std::string& why, const auto& read) {
    ringlet::write_file(file, text);
    const std::string message = file + ": " + why;
    CHECK_THROWS_WITH_AS(read(Entry::read(file)), message.c_str(), ringlet::InputError);
  };
  const auto link = [](const Entry& entry) { ringlet::bench::read_link(entry, "x"); };
  refused("[1]", "expected a JSON object", link);
  refused("{", "expected a JSON object", link);
  refused("{}", "expected 'links'", link);
  refused(R"({"links": {}})", "links: expected 'x'", link);
  refused(R"({"links": {"x": {}}})", "links 'x': expected a number 'node', 0 or more", link);
  refused(R"({"links": {"x": {"node": 0.5}}})",
          "links 'x': expected a whole number 'node', 1 to 1000000", link);
  refused(R"({"links": {"x": {"node": 8, "base_us": -1}}})",
          "links 'x': expected a number 'base_us', 0 or more", link);
  refused(R"({"links": {"x": {"node": 8, "base_us": 1, "hop_us": 1, "GB_per_s": 0}}})",
          "links 'x': expected a rate above 0", link);
  refused(R"({"links": {"x": {"node": 8, "tree": 1}}})",
          "links 'x': expected true or false as 'tree'", link);
  refused(R"({"links": [1]})", "links: expected an object with 'x'", link);
  const auto published = [](const Entry& entry) { check_published(entry); };
  refused(R"({"published": 1})", "expected an array 'published'", published);
  refused(R"({"published": [{}]})", "published 1: expected a string 'network'", published);
  const auto measured = [](const Entry& entry) { check_strategies(entry); };
  refused(R"({"links": {"y": {"node": 2, "base_us": 1, "hop_us": 1, "GB_per_s": 1}},
    "networks": {"z": {"layers": 1, "hidden": 1, "intermediate": 1, "vocabulary": 1,
    "positions": 1, "gradient_bytes": 4, "rows": 0}},
    "measured": [{"network": "z", "link": "y", "rows": []}]})",
          "measured 1: expected rows", measured);
  const auto step = [&](const Entry&) { ringlet::bench::read_measured_step(file); };
  const char* phases = "expected a row of strategy none or unconnected, with phases";
  refused(R"({"rows": [{"strategy": "ddp"}]})", phases, step);
  refused(R"({"rows": [{"strategy": "none", "step_ms": {"median": 3}}]})", phases, step);
  refused(R"({"rows": [{"strategy": "none", "devices": 1, "dtype": "f32", "pairs_per_s": 1,
    "step_ms": {"median": 5, "forward": 1, "backward": 1, "optimizer": 5}}]})",
          "rows 1: expected a step that takes time", step);
}

TEST_SUITE_END();
