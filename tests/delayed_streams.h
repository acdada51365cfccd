// Streams of work that is done when somebody waits for it, in an order that a seed chooses among
// those that streams and the points between them allow; and the graphs that captured streams fill.
// Not for several threads at once.
#pragma once

#include <algorithm>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <utility>
#include <vector>

#include "ringlet/core/error.h"

namespace ringlet {

class DelayedStreams {
 public:
  struct Work {
    std::function<void()> call = {};
    bool computes = false;  // neither a copy to or from the host nor a mere point in a stream
  };
  struct Node;
  using Point = std::shared_ptr<Node>;
  struct Stream {
    std::deque<Point> waiting;
    Point last;  // null: nothing was given yet
  };
  struct Node {
    Work work;
    Stream* stream;
    std::vector<Point> after;  // of other streams
    bool captured = false;
    bool done = false;
  };
  /// In the order in which they were captured.
  using Graph = std::vector<Point>;

  explicit DelayedStreams(unsigned seed) : random_(seed) {}

  Stream* make() { return &streams_.emplace_back(); }

  /// The end of what the stream was given; null where it was given nothing.
  Point last(Stream& stream) const {
    return captures(stream) ? capture_->at(&stream) : stream.last;
  }

  /// Behind what the stream was given before, and behind the points `after`. A stream that waits
  /// for what is captured is captured, too.
  void give(Stream& stream, Work work, std::vector<Point> after = {}) {
    std::erase(after, nullptr);
    const auto is_captured = [](const Point& point) { return point->captured; };
    if (captures(stream) || std::any_of(after.begin(), after.end(), is_captured))
      return add_to_graph(stream, std::move(work), std::move(after));
    stream.last = std::make_shared<Node>(Node{std::move(work), &stream, std::move(after)});
    stream.waiting.push_back(stream.last);
  }

  /// Does what `point` needs, and perhaps other work. False where nothing was left to compute then
  /// even if it did no other.
  bool run_until(const Point& point) {
    std::set<const Node*> needed;
    if (point) need(point, needed);
    bool busy = false;
    for (const Stream& stream : streams_)
      for (const Point& node : stream.waiting)
        busy = busy || (node->work.computes && !needed.contains(node.get()));
    while (point && !point->done)
      RINGLET_CHECK(run_any(), "[device] its streams wait for each other");
    return busy;
  }
  void run_all() {
    while (run_any()) continue;
  }
  /// Some of the work that can be done; false where there is none.
  bool run_any() {
    std::vector<Stream*> able;
    for (Stream& stream : streams_)
      if (is_ready(stream)) able.push_back(&stream);
    if (able.empty()) return false;
    run_first(*able[random_() % able.size()]);
    return true;
  }

  void begin_capture(Stream& stream) {
    capture_.emplace();
    captured_.clear();
    add_to_graph(stream, {}, {});
    origin_ = &stream;
  }
  /// Error where the stream that the capture began with does not wait for all that was captured.
  Graph end_capture() {
    std::set<const Node*> joined;
    need(capture_->at(origin_), joined);
    abandon_capture();
    RINGLET_CHECK_EQ(joined.size(), captured_.size(), "[graph] nodes that the end waits for");
    return std::exchange(captured_, {});
  }
  void abandon_capture() { capture_.reset(); }
  void run(const Graph& graph) {
    Graph left = graph;
    while (!left.empty()) {
      const std::set<Point> waiting(left.begin(), left.end());
      std::vector<std::size_t> able;
      for (std::size_t i = 0; i < left.size(); ++i)
        if (std::none_of(left[i]->after.begin(), left[i]->after.end(),
                         [&](const Point& point) { return waiting.contains(point); }))
          able.push_back(i);
      const auto chosen = left.begin() + static_cast<std::ptrdiff_t>(able[random_() % able.size()]);
      if ((*chosen)->work.call) (*chosen)->work.call();
      left.erase(chosen);
    }
  }

 private:
  bool captures(Stream& stream) const { return capture_ && capture_->contains(&stream); }

  void add_to_graph(Stream& stream, Work work, std::vector<Point> after) {
    RINGLET_CHECK(capture_, "[device] what was captured is waited for outside of its graph");
    for (const Point& point : after)
      RINGLET_CHECK(point->captured, "[device] a graph waits for what is outside of it");
    Point& last = (*capture_)[&stream];
    if (last) after.push_back(last);
    last = std::make_shared<Node>(Node{std::move(work), nullptr, std::move(after), true});
    captured_.push_back(last);
  }

  /// The point, what it comes behind, and so on.
  static void need(const Point& first, std::set<const Node*>& all) {
    std::vector<Point> open{first};
    while (!open.empty()) {
      const Point point = open.back();
      open.pop_back();
      if (point->done || !all.insert(point.get()).second) continue;
      open.insert(open.end(), point->after.begin(), point->after.end());
      if (!point->stream) continue;
      for (const Point& before : point->stream->waiting) {
        if (before == point) break;
        open.push_back(before);
      }
    }
  }

  static bool is_ready(const Stream& stream) {
    const auto is_done = [](const Point& point) { return point->done; };
    return !stream.waiting.empty() && std::all_of(stream.waiting.front()->after.begin(),
                                                  stream.waiting.front()->after.end(), is_done);
  }
  static void run_first(Stream& stream) {
    const Point node = stream.waiting.front();
    stream.waiting.pop_front();
    if (node->work.call) node->work.call();
    node->work = {};
    node->after.clear();
    node->done = true;
  }

  std::mt19937 random_;
  std::deque<Stream> streams_;                       // none ever goes
  std::optional<std::map<Stream*, Point>> capture_;  // the streams in it, and where they end
  Graph captured_;
  Stream* origin_ = nullptr;
};

}  // namespace ringlet
