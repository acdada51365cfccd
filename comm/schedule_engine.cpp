// A schedule over a transport. A buffer is cut into pieces; long pieces are cut into segments,
// which run through the schedule separately.
#include <algorithm>

#include "ringlet/comm/engine.h"
#include "ringlet/comm/observer.h"
#include "ringlet/core/ops/combine.h"

namespace ringlet::comm {
namespace {

class ScheduleEngine final : public Engine {
 public:
  ScheduleEngine(Transport& transport, int rank, int size)
      : transport_(transport), rank_(rank), size_(size) {}

  // Segments alternate step by step, `at_once` of them through the whole schedule.
  void execute(const Collective& collective) override {
    now_ = &collective;
    transport_.begin(collective.call, collective.buffer);
    const std::int64_t segments = collective.segments, at_once = transport_.segments_at_once();
    for (std::int64_t first = 0; first < segments; first += at_once)
      for (const Step& step : collective.schedule)
        for (segment_ = first; segment_ < std::min(first + at_once, segments); ++segment_)
          execute(step);
    transport_.finish();
  }

 private:
  void execute(const Step& step) {
    if (now_->observer) now_->observer->step_begins(*now_, step, segment_);
    const ObservedUntil end(now_->observer, &CollectiveObserver::step_ends);
    set_transmissions(sends_, step.sends, /*sends=*/true);
    set_transmissions(receives_, step.receives, /*sends=*/false);
    const Views views = transport_.exchange(sends_, receives_, step.then == Then::copy);
    if (step.then == Then::copy) copy(views);
    if (step.then == Then::add) add(step.receives[0].piece, views[0]);
    if (step.then == Then::add_all)
      combine_into(rank_, of_all(step.receives, views), true, step.additions);
    if (step.then == Then::stack) stack(of_all(step.receives, views));
    transport_.release();
  }

  void copy(Views views) const {
    for (std::size_t i = 0; i < views.size(); ++i) {
      const auto& [peer, offset, nbytes] = receives_[i];
      std::byte* to = announced_bytes(now_->buffer) + offset;
      if (views[i] != to) copy_bytes(now_->buffer.device(), to, views[i], nbytes);
    }
  }

  // The partial sum comes from the previous rank; it is complete when it reaches its owner.
  void add(int piece, const std::byte* view) const {
    const void* sources[] = {view, in_buffer(segment(piece))};
    combine_into(piece, sources, piece == rank_);
  }

  /// My piece of every node of every rank, in rank order.
  std::span<const void* const> of_all(const std::vector<Transfer>& received, Views views) {
    sources_.clear();
    const Piece mine = segment(rank_);
    // Peers come in the order after this rank, around: those before it are the last ones.
    const auto first =
        std::ranges::find_if(received, [&](const auto& r) { return r.peer < rank_; });
    const auto before = views.begin() + (first - received.begin());
    sources_.insert(sources_.end(), before, views.end());
    for (std::size_t node = 0; node < now_->nodes.size(); ++node)
      sources_.push_back(in_buffer(mine, static_cast<int>(node)));
    sources_.insert(sources_.end(), views.begin(), before);
    return sources_;
  }

  void stack(std::span<const void* const> sources) const {
    const Piece whole = now_->pieces[static_cast<std::size_t>(rank_)], at = segment(rank_);
    std::byte* to = announced_bytes(now_->own) + bytes(at.offset - whole.offset);
    for (const void* source : sources) {
      copy_bytes(now_->own.device(), to, static_cast<const std::byte*>(source), bytes(at.count));
      to += bytes(whole.count);
    }
  }

  void combine_into(int piece, std::span<const void* const> sources, bool whole,
                    const std::vector<std::uint8_t>& additions = {}) const {
    const Piece at = segment(piece);
    if (at.count == 0) return;
    const Call& call = now_->call;
    const Tensor& own = now_->own;
    const std::int64_t start = now_->pieces[static_cast<std::size_t>(piece)].offset;
    std::byte* out =
        own && piece == rank_ ? announced_bytes(own) + bytes(at.offset - start) : in_buffer(at);
    combine_kernel({out, sources.data(), static_cast<int>(sources.size()), at.count,
                    call.reduce == ReduceOp::max ? CombineOp::max : CombineOp::sum,
                    whole && call.reduce == ReduceOp::mean ? 1.0 / size_ : 1.0, call.dtype,
                    additions.empty() ? nullptr : additions.data()},
                   now_->buffer.device());
  }

  // Segments are near-equal, with edges at multiples of 16 elements.
  Piece segment(int piece) const {
    constexpr std::int64_t kAlign = 16;
    const auto [offset, count] = now_->pieces[static_cast<std::size_t>(piece)];
    const std::int64_t blocks = (count + kAlign - 1) / kAlign;
    const auto edge = [&, count = count](std::int64_t i) {
      return std::min(count, blocks * i / now_->segments * kAlign);
    };
    return {offset + edge(segment_), edge(segment_ + 1) - edge(segment_)};
  }
  std::size_t bytes(std::int64_t elements) const {
    return static_cast<std::size_t>(elements) * itemsize(now_->call.dtype);
  }
  std::size_t offset(const Piece& at, int node = 0) const {
    return bytes(now_->nodes[static_cast<std::size_t>(node)] + at.offset);
  }
  std::byte* in_buffer(const Piece& at, int node = 0) const {
    return announced_bytes(now_->buffer) + offset(at, node);
  }
  void set_transmissions(std::vector<Transmission>& to, const std::vector<Transfer>& from,
                         bool sends) const {
    to.clear();
    for (const Transfer& transfer : from) {
      const Piece at = segment(transfer.piece);
      to.push_back({transfer.peer, offset(at, sends ? transfer.node : 0), bytes(at.count)});
    }
  }

  Transport& transport_;
  int rank_;
  int size_;
  const Collective* now_ = nullptr;
  std::int64_t segment_ = 0;
  std::vector<Transmission> sends_, receives_;  // of the current step
  std::vector<const void*> sources_;
};

}  // namespace

std::unique_ptr<Engine> make_schedule_engine(Transport& transport, int rank, int size) {
  return std::make_unique<ScheduleEngine>(transport, rank, size);
}

}  // namespace ringlet::comm
