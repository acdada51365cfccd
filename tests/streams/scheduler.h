// Asynchronous streams: work runs later, mostly while the host waits. A seed chooses one of the
// orders that streams and recorded points allow. The emulated CUDA runtime (tests/emulated) and the
// devices of delayed_device.h enqueue their work here.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <set>
#include <vector>

namespace ringlet::streams {

struct Capture;
struct Graph;
struct Node;
struct Stream;

/// A position in a stream, done when all earlier work is. Null: done.
using Point = std::shared_ptr<Node>;
/// Continues started work; returns true on completion.
using Step = std::function<bool()>;

struct Work {
  /// Starts it on a stream; returns null if that completes it. Empty for a mere point.
  std::function<Step(Stream&)> start = {};
  bool computes = false;  // neither a copy to or from the host nor a mere point
};

/// Per stream, the number of operations that happened before.
using StreamClock = std::vector<std::uint32_t>;

struct Node {
  Work work = {};
  std::vector<Point> after = {};  // including the stream's earlier node
  std::shared_ptr<Capture> capture = {};
  bool held = false;
  bool done = false;
  // Set when it is done, by schedulers that keep them.
  StreamClock clock = {};
  std::uint64_t nanoseconds = 0;
};

struct Stream {
  std::deque<Point> waiting;  // the first may be running
  Step running;
  Point last;
  std::shared_ptr<Capture> capture;
  std::size_t lane = 0;  // in the capture

  bool is_idle() const { return waiting.empty(); }
};

/// The streams of all devices. Callers hold mutex().
class Scheduler {
 public:
  using Lock = std::unique_lock<std::recursive_mutex>;

  explicit Scheduler(std::uint64_t seed) : random_(seed) {}
  virtual ~Scheduler() = default;
  Scheduler(const Scheduler&) = delete;
  Scheduler& operator=(const Scheduler&) = delete;

  std::recursive_mutex& mutex() { return mutex_; }

  /// Ordered after the stream's earlier work and `after`. A stream that waits for a point of an
  /// open capture joins it. Error if only one of stream and point belongs to a capture.
  Point enqueue(Stream& stream, Work work = {}, std::vector<Point> after = {});
  bool may_wait(const Stream& stream, const Node& point) const;
  /// A point that its stream does not pass before let_go().
  Point hold(Stream& stream);
  /// The stream runs `work`, after `after`, and passes. Only the first call counts.
  void let_go(Node& held, Work work = {}, const std::vector<Point>& after = {});

  /// Runs work until `done` is true and releases the lock between steps.
  void run_until(Lock& lock, const std::function<bool()>& done);
  /// Runs work of one stream; returns false if none is ready.
  bool step();
  bool is_idle() const { return busy_.empty(); }
  /// The number of enqueued nodes that are not done.
  std::size_t pending() const;
  /// Whether work that computes is enqueued that `point` does not need.
  bool computes_more_than(const Point& point) const;

  void begin_capture(Stream& origin, std::shared_ptr<Capture> capture);
  /// Nothing unless the origin has joined all captured work.
  std::optional<Graph> end_capture(Stream& origin);
  /// Calls `enqueue` with the stream; of a captured one, at each replay, with the replay's stream.
  void call(Stream& stream, std::function<void(Stream&)> enqueue);
  /// Enqueues captured work, ordered as work of `stream` and after the earlier replay. The graph's
  /// private streams lanes[i] run it.
  void replay(const Graph& graph, Stream& stream, const std::vector<Stream*>& lanes);

 protected:
  /// Before a node's work starts, and when it is done.
  virtual void on_start(Stream&, const Node&) {}
  virtual void on_done(const Stream&, Node&) {}

 private:
  bool advance(Stream& stream);

  std::recursive_mutex mutex_;
  std::condition_variable_any changed_;
  std::vector<Stream*> busy_;
  std::mt19937_64 random_;
};

/// Captured work, in the order of its calls.
struct Graph {
  struct Entry {
    Point node;
    std::size_t lane = 0;
    std::function<void(Stream&)> call = {};  // instead of the node's work
  };
  std::vector<Entry> entries;
  std::size_t lanes = 0;

  /// The number of nodes that compute.
  std::size_t nodes() const;
};

struct Capture {
  struct Lane {
    Stream* stream = nullptr;
    Point before;  // the end of its work outside of the capture
  };
  std::vector<Lane> lanes;  // the origin first; none once it has ended
  std::vector<Graph::Entry> entries;
};

inline bool is_done(const Point& point) { return !point || point->done; }
/// The unfinished nodes that `point` comes after, and itself.
std::set<const Node*> needed_by(const Point& point);

}  // namespace ringlet::streams
