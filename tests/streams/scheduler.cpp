#include "scheduler.h"

#include <algorithm>
#include <chrono>
#include <utility>

namespace ringlet::streams {
namespace {

bool is_ready(const Stream& stream) {
  if (stream.is_idle()) return false;
  if (stream.running) return true;
  const Node& next = *stream.waiting.front();
  return !next.held && std::all_of(next.after.begin(), next.after.end(), is_done);
}

}  // namespace

Point Scheduler::hold(Stream& stream) {
  const Point point = enqueue(stream, {nullptr, true});
  point->held = true;
  return point;
}

void Scheduler::let_go(Node& held, Work work, const std::vector<Point>& after) {
  if (!std::exchange(held.held, false)) return;
  held.work = std::move(work);
  held.after.insert(held.after.end(), after.begin(), after.end());
  changed_.notify_all();
}

void Scheduler::run_until(Lock& lock, const std::function<bool()>& done) {
  while (!done()) {
    if (step()) {
      lock.unlock();
      lock.lock();
    } else {  // another thread enqueues, lets go or completes work first
      changed_.wait_for(lock, std::chrono::milliseconds(1));
    }
  }
}

bool Scheduler::step() {
  std::vector<Stream*> ready;
  for (Stream* const stream : busy_)
    if (is_ready(*stream)) ready.push_back(stream);
  if (ready.empty()) return false;
  Stream& chosen = *ready[random_() % ready.size()];
  const int most = 1 << random_() % 5;  // nodes before another stream is chosen
  for (int i = 0; i < most && is_ready(chosen) && advance(chosen); ++i) {
  }
  return true;
}

// Returns true once the first node is done.
bool Scheduler::advance(Stream& stream) {
  const Point node = stream.waiting.front();
  if (!stream.running) {
    on_start(stream, *node);
    if (node->work.start) stream.running = node->work.start(stream);
  }
  if (stream.running && !stream.running()) return false;
  stream.running = nullptr;
  stream.waiting.pop_front();
  if (stream.is_idle()) std::erase(busy_, &stream);
  node->work = {};
  node->after.clear();
  node->done = true;
  on_done(stream, *node);
  return true;
}

std::size_t Scheduler::pending() const {
  std::size_t sum = 0;
  for (const Stream* stream : busy_) sum += stream->waiting.size();
  return sum;
}

bool Scheduler::computes_more_than(const Point& point) const {
  const std::set<const Node*> needed = needed_by(point);
  for (const Stream* stream : busy_)
    for (const Point& node : stream->waiting)
      if (node->work.computes && !needed.contains(node.get())) return true;
  return false;
}

std::set<const Node*> needed_by(const Point& point) {
  std::set<const Node*> needed;
  std::vector<const Node*> open{point.get()};
  while (!open.empty()) {
    const Node* const node = open.back();
    open.pop_back();
    if (!node || node->done || !needed.insert(node).second) continue;
    for (const Point& earlier : node->after) open.push_back(earlier.get());
  }
  return needed;
}

}  // namespace ringlet::streams
