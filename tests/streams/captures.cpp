#include <algorithm>
#include <map>
#include <stdexcept>
#include <utility>

#include "scheduler.h"

namespace ringlet::streams {
namespace {

void join(Stream& stream, std::shared_ptr<Capture> capture) {
  stream.lane = capture->lanes.size();
  capture->lanes.push_back({&stream, std::exchange(stream.last, nullptr)});
  stream.capture = std::move(capture);
}

}  // namespace

bool Scheduler::may_wait(const Stream& stream, const Node& point) const {
  const bool joins = !stream.capture && point.capture && !point.capture->lanes.empty();
  return joins || stream.capture == point.capture;
}

Point Scheduler::enqueue(Stream& stream, Work work, std::vector<Point> after) {
  std::erase(after, nullptr);
  for (const Point& point : after) {
    if (!may_wait(stream, *point))
      throw std::logic_error("a stream waits for a point outside of its capture");
    if (point->capture && !stream.capture) join(stream, point->capture);
  }
  if (stream.last) after.push_back(stream.last);
  stream.last = std::make_shared<Node>(Node{std::move(work), std::move(after), stream.capture});
  if (stream.capture) {
    stream.capture->entries.push_back({stream.last, stream.lane});
  } else {
    if (stream.is_idle()) busy_.push_back(&stream);
    stream.waiting.push_back(stream.last);
    changed_.notify_all();
  }
  return stream.last;
}

void Scheduler::call(Stream& stream, std::function<void(Stream&)> enqueue) {
  if (!stream.capture) return enqueue(stream);
  this->enqueue(stream, {nullptr, true});
  stream.capture->entries.back().call = std::move(enqueue);
}

void Scheduler::begin_capture(Stream& origin, std::shared_ptr<Capture> capture) {
  join(origin, std::move(capture));
  enqueue(origin);  // so that another stream can wait for its begin
}

std::optional<Graph> Scheduler::end_capture(Stream& origin) {
  const std::shared_ptr<Capture> capture = origin.capture;
  const std::set<const Node*> joined = needed_by(origin.last);
  Graph graph{std::exchange(capture->entries, {}), capture->lanes.size()};
  for (const Capture::Lane& lane : std::exchange(capture->lanes, {})) {
    lane.stream->last = lane.before;
    lane.stream->capture = nullptr;
  }
  for (const Graph::Entry& entry : graph.entries)
    if ((entry.call || entry.node->work.start) && !joined.contains(entry.node.get()))
      return std::nullopt;
  return graph;
}

void Scheduler::replay(const Graph& graph, Stream& stream, const std::vector<Stream*>& lanes) {
  const auto ends = [&] {
    std::vector<Point> all;
    for (const Stream* lane : lanes) all.push_back(lane->last);
    return all;
  };
  const Point begin = enqueue(stream, {}, ends());
  for (Stream* const lane : lanes) enqueue(*lane, {}, {begin});
  std::map<const Node*, Point> now;  // of the capture, to those of this replay
  for (const Graph::Entry& entry : graph.entries) {
    Stream& lane = *lanes[entry.lane];
    std::vector<Point> after;
    for (const Point& point : entry.node->after) after.push_back(now.at(point.get()));
    if (entry.call)
      entry.call(lane);
    else
      enqueue(lane, entry.node->work, std::move(after));
    now[entry.node.get()] = lane.last;
  }
  enqueue(stream, {}, ends());
}

std::size_t Graph::nodes() const {
  return static_cast<std::size_t>(
      std::count_if(entries.begin(), entries.end(),
                    [](const Entry& entry) { return entry.node->work.computes; }));
}

}  // namespace ringlet::streams
