// The table's rows on several GPUs, here delayed devices; on a CPU tests/cli runs the program
// itself.
#include <doctest/doctest.h>

#include <fstream>
#include <map>

#include "../delayed_device.h"
#include "../files.h"
#include "ringlet/bench/runner.h"
#include "ringlet/bench/timed_ranks.h"
#include "ringlet/comm/launch.h"
#include "ringlet/core/device/backend.h"
#include "ringlet/core/io/json.h"
#if defined(RINGLET_TESTS_NCCL)
#include "../fake_nccl.h"
#endif

TEST_SUITE_BEGIN("host");

using namespace ringlet;
using namespace ringlet::bench;

namespace {

/// Pairs of one length, so that every step has the shapes of the first.
std::string one_length(const TemporaryFolder& folder) {
  const std::string file = (folder / "lengths.json").string();
  std::ofstream(file) << R"({"lengths": [[5, 5, 1]]})";
  return file;
}

ThroughputOptions options_for(Device device, int devices, const TemporaryFolder& folder) {
  ThroughputOptions options;
  options.device = device;
  options.devices = devices;
  options.model = "tiny";
  options.batch = 3;
  options.steps = 2;
  options.rounds = 1;
  options.idle_steps = 0;
  options.histogram = one_length(folder);
  return options;
}

/// In every row each device trains its share of the batch.
void run_rows(const ThroughputOptions& options) {
  for (const Plan& plan : plan_rows(options)) {
    CAPTURE(plan.name);
    const Measurement measured = run_round(options, plan, /*last=*/true);
    CHECK(measured.pairs == static_cast<double>(3 * plan.devices));
    CHECK(measured.step_ms.size() == 2);
    CHECK((measured.wire_bytes > 0) == (plan.ranks() > 1 && plan.together));
    const bool captured = plan.name == "none" || (options.transport == comm::TransportKind::nccl &&
                                                  (plan.name == "ddp" || plan.name == "zero1"));
    CHECK(measured.replayed == (captured ? 1 : 0));
    const bool timed = plan.ranks() > 1 && plan.together && !captured;
    CHECK((measured.collectives_ms > 0) == timed);
    CHECK(overlap(measured).has_value() == timed);
  }
}

}  // namespace

#if defined(RINGLET_TESTS_NCCL)
// Threads replace the processes, which the fake NCCL cannot connect.
TEST_CASE("rows of ranks that a launcher started, each on the GPU that it sees, over NCCL") {
  if (has_backend(DeviceType::cuda)) return;
  DelayedDevice delayed(1, {"0000:01:00.0", "0000:02:00.0"});
  const FakeNccl nccl(delayed);
  const TemporaryFolder folder;
  const auto rank_main = [&](const comm::Group& launched) {
    ThroughputOptions options = options_for({DeviceType::cuda, launched.rank()}, 2, folder);
    const DefaultDeviceGuard on(options.device);
    options.transport = comm::TransportKind::nccl;
    options.join(launched);
    CHECK(options.is_root() == (launched.rank() == 0));
    CHECK(options.device_of(1) == options.device);
    CHECK(options.gpus.size() == 2);
    CHECK(options.gpus[1].ends_with(" 0000:02:00.0"));
    CHECK(options.ranks_per_gpu() == 1);
    for (const Plan& plan : plan_rows(options)) CHECK(plan.name != "dp");
    run_rows(options);
    options.gpus[1] = options.gpus[0];
    CHECK(options.ranks_per_gpu() == 2);
  };
  comm::launch(rank_main, 2);
  CHECK(nccl.made() == 2 * 3);  // for ddp, zero1 and fsdp
  CHECK(nccl.misused() == 0);
}
#endif

TEST_CASE(
    "ranks time the all-reduces of their own link, and each sends 2 (n - 1) / n of the bytes") {
  Json link;
  comm::launch(
      [&](const comm::Group& group) {
        const std::string mine = time_link(group, {});
        if (group.rank() == 0) link = Json::parse(mine);
      },
      3);
  CHECK(link["ranks"] == 3);
  REQUIRE(link["all_reduce"].size() == 3);
  for (const auto& timed : link["all_reduce"]) CHECK(timed["us"] > 0);
  const auto& last = link["all_reduce"][2];
  const double sent = 4 / 3.0 * last["bytes"].get<double>();
  CHECK(link["GB_per_s"].get<double>() == doctest::Approx(1e-3 * sent / last["us"].get<double>()));
}

// Collectives are on their stream, kernels on that of the rank, which is a thread.
TEST_CASE("the timeline of ranks that are threads with a GPU each") {
  if (has_backend(DeviceType::cuda)) return;
  const DelayedDevice delayed;
  const DefaultDeviceGuard on({DeviceType::cuda, 0});
  const TemporaryFolder folder;
  ThroughputOptions options = options_for({DeviceType::cuda, 0}, 2, folder);
  options.timeline = "recorded.json";
  const Plan plan{"ddp", train::Strategy::ddp, 2, true};
  const Measurement measured = run_round(options, plan, /*last=*/true);
  REQUIRE(measured.timeline.size() == 2);
  for (const std::vector<train::Span>& rank : measured.timeline) {
    std::map<std::string, int> counts;
    for (const train::Span& span : rank) {
      CHECK(span.begin <= span.end);
      ++counts[span.track + " " + span.kind];
    }
    CHECK(counts["steps phase"] == 2 * 4);
    CHECK(counts["compute kernel"] > 0);
    CHECK(counts["compute wait"] > 0);
    CHECK(counts["collectives collective"] > 0);
    CHECK(counts["collectives step"] >= counts["collectives collective"]);
    CHECK(counts["data wait"] == 2);
  }
}

TEST_CASE("rows of several GPUs, a rank on each; of more ranks than GPUs, some share one") {
  if (has_backend(DeviceType::cuda)) return;
  const DelayedDevice delayed;
  const DefaultDeviceGuard on({DeviceType::cuda, 0});
  const TemporaryFolder folder;
  const ThroughputOptions two = options_for({DeviceType::cuda, 0}, 2, folder);
  CHECK(two.device_of(1) == Device{DeviceType::cuda, 1});
  run_rows(two);
  const ThroughputOptions more =
      options_for({DeviceType::cuda, 1}, DelayedDevice::kDevices + 1, folder);
  CHECK(more.device_of(DelayedDevice::kDevices) == Device{DeviceType::cuda, 1});
  run_rows(more);
}

TEST_SUITE_END();
