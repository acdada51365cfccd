#include "ringlet/comm/collectives.h"

#include <algorithm>
#include <cstring>

#include "ringlet/core/ops/combine.h"

namespace ringlet::comm {
namespace {

// One segment on its way through the schedule.
class Segment {
 public:
  Segment(const Collective& collective, int rank, int size)
      : collective_(collective),
        rank_(rank),
        size_(size),
        itemsize_(itemsize(collective.call.dtype)),
        buffer_(announced_bytes(collective.buffer)),
        own_(announced_bytes(collective.own)) {}

  void run(std::int64_t k, Transport& transport) {
    k_ = k;
    for (const Step& step : collective_.schedule) {
      transmissions(step.sends, sends_);
      transmissions(step.receives, receives_);
      transport.step(sends_, receives_, step.then == Then::copy,
                     [&](std::span<const std::byte* const> views) {
                       for (std::size_t i = 0; step.then == Then::copy && i < views.size(); ++i)
                         place(receives_[i], views[i]);
                       if (step.then == Then::add) add(step.receives[0], views[0]);
                       if (step.then == Then::add_all) add_all(step.receives, views);
                     });
    }
  }

 private:
  Piece segment(int piece) const {
    return segment_of(collective_.pieces[static_cast<std::size_t>(piece)], k_,
                      collective_.segments);
  }
  std::byte* in_buffer(int piece) const { return buffer_ + bytes(segment(piece).offset); }
  std::size_t bytes(std::int64_t elements) const {
    return static_cast<std::size_t>(elements) * itemsize_;
  }

  void transmissions(const std::vector<Transfer>& transfers, std::vector<Transmission>& out) const {
    out.clear();
    for (const Transfer& transfer : transfers) {
      const Piece at = segment(transfer.piece);
      out.push_back({transfer.peer, bytes(at.offset), bytes(at.count)});
    }
  }

  void place(const Transmission& received, const std::byte* view) const {
    std::byte* to = buffer_ + received.offset;
    if (received.nbytes > 0 && view != to) std::memcpy(to, view, received.nbytes);
  }

  // The sum so far comes from the previous rank; it is whole when it reaches its owner.
  void add(const Transfer& received, const std::byte* view) {
    const void* sources[] = {view, in_buffer(received.piece)};
    combine_into(received.piece, sources, 2, received.piece == rank_);
  }

  void add_all(const std::vector<Transfer>& received, std::span<const std::byte* const> views) {
    sources_.assign(static_cast<std::size_t>(size_), in_buffer(rank_));
    for (std::size_t i = 0; i < views.size(); ++i)
      sources_[static_cast<std::size_t>(received[i].peer)] = views[i];
    combine_into(rank_, sources_.data(), size_, true);
  }

  void combine_into(int piece, const void* const* sources, int count, bool whole) {
    const Piece at = segment(piece);
    if (at.count == 0) return;
    const std::int64_t start = collective_.pieces[static_cast<std::size_t>(piece)].offset;
    std::byte* out = own_ && piece == rank_ ? own_ + bytes(at.offset - start) : in_buffer(piece);
    const ReduceOp reduce = collective_.call.reduce;
    combine_kernel(
        {out, sources, count, at.count, reduce == ReduceOp::max ? CombineOp::max : CombineOp::sum,
         whole && reduce == ReduceOp::avg ? 1.0 / size_ : 1.0, collective_.call.dtype},
        Device{});
  }

  const Collective& collective_;
  int rank_;
  int size_;
  std::size_t itemsize_;
  std::byte* buffer_;
  std::byte* own_;
  std::int64_t k_ = 0;
  std::vector<Transmission> sends_;
  std::vector<Transmission> receives_;
  std::vector<const void*> sources_;
};

}  // namespace

Piece segment_of(const Piece& piece, std::int64_t k, std::int64_t segments) {
  constexpr std::int64_t kAlign = 16;
  const std::int64_t blocks = (piece.count + kAlign - 1) / kAlign;
  const auto edge = [&](std::int64_t i) {
    return std::min(piece.count, blocks * i / segments * kAlign);
  };
  return {piece.offset + edge(k), edge(k + 1) - edge(k)};
}

void run(const Collective& collective, Transport& transport, int rank, int size) {
  transport.begin(collective.call, collective.buffer);
  Segment segment(collective, rank, size);
  for (std::int64_t k = 0; k < collective.segments; ++k) segment.run(k, transport);
  transport.finish();
}

}  // namespace ringlet::comm
