// Streams with deferred work, and the graphs that captured streams fill. Work runs when a caller
// waits for it. A seed chooses the order among those that streams and the points between them
// allow. Not thread-safe.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
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
  /// A stream's exchange with something outside its device, called each time that it is enqueued.
  /// `arrived`: the point where the stream reaches it. Returns the points that it waits for then.
  using Meeting = std::function<std::vector<Point>(const Point& arrived)>;
  struct Stream {
    std::deque<Point> waiting;
    Point last = {};    // null: nothing was given yet
    unsigned turn = 0;  // the highest runs
  };
  struct Node {
    Work work = {};
    Stream* stream = nullptr;
    std::vector<Point> after = {};  // of other streams
    Stream* capture = nullptr;      // that it is part of, by the stream that it began with
    bool done = false;
    bool promised = false;
    Meeting meeting = {};  // of what is captured; behind `work`
  };
  /// In the order in which they were captured.
  using Graph = std::vector<Point>;

  explicit DelayedStreams(unsigned seed) : random_(seed) {}

  Stream* make() { return &streams_.emplace_back(); }

  /// The end of what the stream was given; null where it was given nothing.
  Point last(Stream& stream) const {
    const Capture* capture = capture_of(stream);
    return capture ? capture->ends.at(&stream) : stream.last;
  }

  /// Behind what the stream was given before, and behind the points `after`. A stream that waits
  /// for what is captured is captured, too.
  void give(Stream& stream, Work work, std::vector<Point> after = {}) {
    std::erase(after, nullptr);
    const auto captured =
        std::find_if(after.begin(), after.end(), [](const Point& point) { return point->capture; });
    Stream* capture = captured != after.end() ? (*captured)->capture : nullptr;
    if (capture || captures(stream))
      return add_to_graph(capture, stream, {std::move(work), nullptr, std::move(after)});
    stream.last = std::make_shared<Node>(Node{std::move(work), &stream, std::move(after)});
    if (stream.waiting.empty()) {
      stream.turn = static_cast<unsigned>(random_());
      busy_.push_back(&stream);
    }
    stream.waiting.push_back(stream.last);
  }

  /// For a captured stream: a meeting behind what it was given before.
  void meet(Stream& stream, Meeting meeting) {
    Node node;
    node.meeting = std::move(meeting);
    add_to_graph(nullptr, stream, std::move(node));
  }
  /// One of no stream.
  Point give_beside(Work work, std::vector<Point> after) {
    std::erase(after, nullptr);
    kept_.push_back(std::make_shared<Node>(Node{std::move(work), nullptr, std::move(after)}));
    return kept_.back();
  }

  /// A point that is not reached before another caller's keep(); work that waits for it waits.
  Point promise() {
    ++promises_;
    auto point = std::make_shared<Node>();
    point->promised = true;
    return point;
  }
  /// It is reached when `work` is done, after the points `after`. Only the first call counts.
  void keep(const Point& point, Work work, std::vector<Point> after) {
    if (!std::exchange(point->promised, false)) return;
    --promises_;
    point->work = std::move(work);
    point->after = std::move(after);
    kept_.push_back(point);
  }

  /// Does what `point` needs, and perhaps other work; calls `pause` while all that is left waits
  /// for a promise. False where nothing was left to compute then even if it did no other.
  bool run_until(const Point& point, const std::function<void()>& pause) {
    std::set<const Node*> needed;
    if (point) need(point, needed);
    bool busy = false;
    for (const Stream* stream : busy_)
      for (const Point& node : stream->waiting)
        busy = busy || (node->work.computes && !needed.contains(node.get()));
    while (point && !point->done) run_or_pause(pause);
    return busy;
  }
  void run_all(const std::function<void()>& pause) {
    while (!kept_.empty() || !busy_.empty()) run_or_pause(pause);
  }
  /// Runs some work that is ready, from the stream with the highest turn: streams run far ahead of
  /// each other. False if there is none.
  bool run_any() {
    constexpr unsigned kTurn = 16;
    if (random_() % kTurn == 0) draw_turns();
    Stream* next = nullptr;
    for (Stream* stream : busy_)
      if (is_ready(*stream->waiting.front()) && (!next || stream->turn > next->turn)) next = stream;
    std::vector<std::size_t> kept;
    for (std::size_t i = 0; i < kept_.size(); ++i)
      if (is_ready(*kept_[i])) kept.push_back(i);
    if (!next && kept.empty()) return false;
    if (!kept.empty() && (!next || turn_of_kept_ > next->turn)) {
      const std::size_t chosen = kept[random_() % kept.size()];
      const Point node = kept_[chosen];
      kept_.erase(kept_.begin() + static_cast<std::ptrdiff_t>(chosen));
      run(*node);
    } else {
      const Point node = next->waiting.front();
      next->waiting.pop_front();
      if (next->waiting.empty()) std::erase(busy_, next);
      run(*node);
    }
    return true;
  }

  void begin_capture(Stream& stream) {
    captures_.emplace(&stream, Capture{});
    add_to_graph(&stream, stream, {});
  }
  /// Error where the stream that the capture began with does not wait for all that was captured.
  Graph end_capture(Stream& origin) {
    const Capture capture = std::move(captures_.at(&origin));
    captures_.erase(&origin);
    std::set<const Node*> joined;
    need(capture.ends.at(&origin), joined);
    RINGLET_CHECK_EQ(joined.size(), capture.graph.size(), "[graph] nodes that the end waits for");
    return capture.graph;
  }
  void abandon_capture(Stream& origin) {
    forget(captures_.at(&origin).graph);
    captures_.erase(&origin);
  }
  /// Its meetings, when it goes: events may know points of it still.
  static void forget(const Graph& graph) {
    for (const Point& node : graph) node->meeting = nullptr;
  }
  bool captures(const Stream& stream) const { return capture_of(stream) != nullptr; }

  /// How much work that computes was done so far.
  std::uint64_t computed() const { return computed_; }

 private:
  /// One that has not ended.
  struct Capture {
    std::map<const Stream*, Point> ends = {};  // of the streams in it
    Graph graph = {};
  };

  const Capture* capture_of(const Stream& stream) const {
    for (const auto& [origin, capture] : captures_)
      if (capture.ends.contains(&stream)) return &capture;
    return nullptr;
  }
  /// To the capture that began with `origin`; null: to the one that the stream is in.
  void add_to_graph(Stream* origin, Stream& stream, Node node) {
    for (auto& [began, capture] : captures_)
      if (!origin && capture.ends.contains(&stream)) origin = began;
    const auto found = captures_.find(origin);
    RINGLET_CHECK(found != captures_.end(),
                  "[device] what was captured is waited for outside of its graph");
    auto& [ends, graph] = found->second;
    for (const Point& point : node.after)
      RINGLET_CHECK(point->capture == origin, "[device] a graph waits for what is outside of it");
    Point& last = ends[&stream];
    if (last) node.after.push_back(last);
    node.capture = origin;
    last = std::make_shared<Node>(std::move(node));
    graph.push_back(last);
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

  static bool is_ready(const Node& node) {
    return std::all_of(node.after.begin(), node.after.end(),
                       [](const Point& point) { return point->done; });
  }
  void run(Node& node) {
    if (node.work.call) node.work.call();
    if (node.work.computes) ++computed_;
    node.work = {};
    node.after.clear();
    node.done = true;
  }
  void run_or_pause(const std::function<void()>& pause) {
    if (run_any()) return;
    RINGLET_CHECK(promises_ > 0, "[device] its streams wait for each other");
    pause();
  }
  void draw_turns() {
    turn_of_kept_ = static_cast<unsigned>(random_());
    for (Stream* stream : busy_) stream->turn = static_cast<unsigned>(random_());
  }

  std::mt19937 random_;
  std::deque<Stream> streams_;  // none ever goes
  std::vector<Stream*> busy_;   // those with work: a program makes thousands, and few have any
  std::deque<Point> kept_;      // of no stream
  unsigned turn_of_kept_ = 0;
  std::uint64_t computed_ = 0;
  int promises_ = 0;  // not kept yet
  std::map<Stream*, Capture> captures_;
};

}  // namespace ringlet
