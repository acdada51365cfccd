// Timelines as JSON: between ranks, and as a trace for viewers.
//
// Chrome's trace event format: complete events ("X") in microseconds, names of processes and
// threads as metadata ("M").
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>

#include "ringlet/comm/group.h"
#include "ringlet/core/base/error.h"
#include "ringlet/core/io/file.h"
#include "ringlet/core/io/json.h"
#include "ringlet/train/report/timeline.h"

namespace ringlet::train {

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Span, track, kind, name, begin, end, depth)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(RankTimeline, title, spans)

namespace {

Json name_event(const char* what, int process, int thread, const std::string& name) {
  return {
      {"name", what}, {"ph", "M"}, {"pid", process}, {"tid", thread}, {"args", {{"name", name}}}};
}

// Whole nanoseconds: rounded ends of a span stay within those of the span around it.
double microseconds(double seconds) { return std::round(1e9 * seconds) / 1e3; }

}  // namespace

std::vector<RankTimeline> gather(const RankTimeline& mine, const comm::Group& group) {
  std::vector<RankTimeline> ranks;
  for (const std::string& text : group.all_gather_bytes(nlohmann::json(mine).dump()))
    ranks.push_back(nlohmann::json::parse(text).get<RankTimeline>());
  return ranks;
}

TimelineFiles::TimelineFiles(const std::filesystem::path& either) : trace(either), drawing(either) {
  if (either.extension() != ".json" && either.extension() != ".svg")
    fail_input(either.string(), ": expected a name that ends in .json or .svg");
  trace.replace_extension(".json");
  drawing.replace_extension(".svg");
}

void TimelineFiles::write(const std::vector<RankTimeline>& ranks) const {
  write_file(trace, to_trace(ranks));
  write_file(drawing, to_svg(ranks));
}

std::string to_trace(const std::vector<RankTimeline>& ranks) {
  Json events = Json::array();
  for (int process = 0; const RankTimeline& rank : ranks) {
    events.push_back(name_event("process_name", process, 0, rank.title));
    std::map<std::string, int> threads{
        {"steps", 0}, {"compute", 1}, {"collectives", 2}, {"data", 3}};
    for (const Span& span : rank.spans)
      threads.try_emplace(span.track, static_cast<int>(threads.size()));
    for (const auto& [track, thread] : threads)
      events.push_back(name_event("thread_name", process, thread, track));
    for (const Span& span : rank.spans) {
      const double begin = microseconds(span.begin);
      events.push_back({{"name", span.name},
                        {"cat", span.kind},
                        {"ph", "X"},
                        {"ts", begin},
                        {"dur", microseconds(span.end) - begin},
                        {"pid", process},
                        {"tid", threads.at(span.track)}});
    }
    ++process;
  }
  return Json{{"displayTimeUnit", "ms"}, {"traceEvents", std::move(events)}}.dump() + "\n";
}

}  // namespace ringlet::train
