#include "ringlet/train/report/timeline.h"
#include "ringlet/core/io/json.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "ringlet/core/device/device_time.h"
#include "ringlet/ringlet.h"

TEST_SUITE_BEGIN("host");

using namespace ringlet;
using namespace ringlet::train;

namespace {

std::vector<Span> of_kind(const std::vector<Span>& spans, const std::string& kind) {
  std::vector<Span> found;
  for (const Span& span : spans)
    if (span.kind == kind) found.push_back(span);
  return found;
}

std::size_t count_of(const std::string& text, const std::string& part) {
  std::size_t found = 0;
  for (std::size_t at = 0; (at = text.find(part, at)) != text.npos; ++at) ++found;
  return found;
}

/// Two steps, each with a phase of data and one of computing.
RankTimeline two_steps() {
  RankTimeline rank{"ddp, rank 0", {}};
  for (const double at : {0.0, 10.0}) {
    rank.spans.push_back({"steps", "phase", "data", at, at + 1});
    rank.spans.push_back({"data", "wait", "data", at, at + 0.5});
    rank.spans.push_back({"compute", "kernel", "inner", at + 2, at + 3, 1});
    rank.spans.push_back({"compute", "kernel", "matmul", at + 1, at + 4});
    rank.spans.push_back({"collectives", "collective", "all_reduce (f32, 8)", at + 3, at + 6});
    rank.spans.push_back({"compute", "wait", "collectives", at + 4, at + 6});
    rank.spans.push_back({"steps", "phase", "optimizer", at + 1, at + 6});
  }
  return rank;
}

}  // namespace

TEST_CASE("a timeline records the kernels of its lifetime, and phases") {
  const Tensor a = full({4, 4}, 1.0);
  static_cast<void>(matmul(a, a));
  std::vector<Span> spans;
  {
    Timeline timeline(Device{}, 0);
    {
      const TimelinePhase phase("forward");
      static_cast<void>(matmul(a, a));
    }
    spans = timeline.spans();
  }
  const TimelinePhase without_effect("forward");
  static_cast<void>(matmul(a, a));
  const std::vector<Span> kernels = of_kind(spans, "kernel"), phases = of_kind(spans, "phase");
  REQUIRE(kernels.size() == 1);
  CHECK(kernels[0].name == "matmul");
  CHECK(kernels[0].track == "compute");
  REQUIRE(phases.size() == 1);
  CHECK(phases[0].begin >= 0);
  CHECK(phases[0].begin <= kernels[0].begin);
  CHECK(kernels[0].begin <= kernels[0].end);
  CHECK(kernels[0].end <= phases[0].end);
}

TEST_CASE("a collective and its steps are on the track of collectives, even if a caller runs it") {
  std::vector<std::vector<Span>> ranks(2);
  comm::launch(
      [&](const comm::Group& group) {
        Timeline timeline(Device{}, group.rank());
        group.all_reduce(full({1 << 17}, 1.0)).wait();  // not copied whole: two steps
        ranks[static_cast<std::size_t>(group.rank())] = timeline.spans();
      },
      2, {.group = {.observer = &Timeline::of_collectives()}});
  for (const std::vector<Span>& spans : ranks) {
    const std::vector<Span> all = of_kind(spans, "collective"), steps = of_kind(spans, "step");
    REQUIRE(all.size() == 1);
    CHECK(all[0].name == "all_reduce (f32, 131072)");
    CHECK(all[0].depth == 0);
    REQUIRE(steps.size() == 2);
    CHECK(steps[0].name == "step 0");
    CHECK(steps[1].name == "step 1");
    for (const Span& step : steps) {
      CHECK(step.track == "collectives");
      CHECK(step.depth == 1);
      CHECK(all[0].begin <= step.begin);
      CHECK(step.end <= all[0].end);
    }
    CHECK(steps[0].end <= steps[1].begin);
  }
}

TEST_CASE("the trace has a process for each rank, a thread for each track, and microseconds") {
  const auto trace = Json::parse(to_trace({two_steps(), {"ddp, rank 1", {}}}));
  const Json& events = trace["traceEvents"];
  const auto named = [&](const std::string& name) {
    const auto found = std::find_if(events.begin(), events.end(), [&](const auto& event) {
      return event["ph"] == "M" && event["args"]["name"] == name;
    });
    REQUIRE(found != events.end());
    return *found;
  };
  CHECK(named("ddp, rank 0")["pid"] == 0);
  CHECK(named("ddp, rank 1")["pid"] == 1);
  CHECK(named("ddp, rank 1")["name"] == "process_name");
  const auto last = events[events.size() - 1 - 5];  // before the second rank's names
  CHECK(last["name"] == "optimizer");
  CHECK(last["cat"] == "phase");
  CHECK(last["ph"] == "X");
  CHECK(last["ts"] == 11e6);
  CHECK(last["dur"] == 5e6);
  CHECK(last["tid"] == named("steps")["tid"]);
}

TEST_CASE("the drawing is of the last step, without kernels in others") {
  const std::string svg = to_svg({two_steps()});
  CHECK(count_of(svg, "<title>matmul, 3000.00 ms</title>") == 1);
  CHECK(count_of(svg, "<title>inner") == 0);
  for (const char* tick : {"0", "2000", "4000", "6000", "ms"})  // the axis
    CHECK(count_of(svg, str(">", tick, "</text>")) == 1);
  CHECK(count_of(svg, "<title>all_reduce (f32, 8), 3000.00 ms</title>") == 1);
  CHECK(count_of(svg, "ddp, rank 0: 6000.0 ms, 3000.0 ms of collectives, 2000.0 ms of waiting") ==
        1);
}

TEST_SUITE_END();
