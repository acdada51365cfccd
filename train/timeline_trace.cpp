// Chrome's trace event format: complete events ("X") in microseconds, names of processes and
// threads as metadata ("M").
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>

#include "ringlet/train/timeline.h"

namespace ringlet::train {
namespace {

using Json = nlohmann::ordered_json;

Json name_event(const char* what, int process, int thread, const std::string& name) {
  return {
      {"name", what}, {"ph", "M"}, {"pid", process}, {"tid", thread}, {"args", {{"name", name}}}};
}

// Whole nanoseconds: rounded ends of a span stay within those of the span around it.
double microseconds(double seconds) { return std::round(1e9 * seconds) / 1e3; }

}  // namespace

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
