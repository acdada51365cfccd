#include "ringlet/comm/collectives.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "ringlet/core/ops/combine.h"

namespace ringlet::comm {
namespace {

// One rank's steps, for one segment at a time.
class Steps {
 public:
  explicit Steps(const RankPart& part)
      : collective_(*part.collective),
        transport_(*part.transport),
        stream_(part.stream),
        rank_(part.rank),
        size_(part.size),
        itemsize_(itemsize(collective_.call.dtype)),
        device_(collective_.buffer.device()),
        buffer_(announced_bytes(collective_.buffer)),
        own_(announced_bytes(collective_.own)) {}

  std::size_t count() const { return collective_.schedule.size(); }
  std::int64_t segments() const { return collective_.segments; }
  std::int64_t segments_at_once() const { return transport_.segments_at_once(); }

  void begin() {
    const StreamGuard on(*stream_);
    transport_.begin(collective_.call, collective_.buffer);
  }
  void send(std::int64_t k, std::size_t step) {
    const StreamGuard on(*stream_);
    k_ = k;
    transmissions(collective_.schedule[step].sends, transmissions_);
    transport_.send(transmissions_);
  }
  void receive(std::int64_t k, std::size_t number) {
    const StreamGuard on(*stream_);
    k_ = k;
    const Step& step = collective_.schedule[number];
    transmissions(step.receives, transmissions_);
    const Views views = transport_.receive(transmissions_, step.then == Then::copy);
    for (std::size_t i = 0; step.then == Then::copy && i < views.size(); ++i)
      place(transmissions_[i], views[i]);
    if (step.then == Then::add) add(step.receives[0], views[0]);
    if (step.then == Then::add_all) add_all(step.receives, views);
    transport_.release();
  }
  void finish() {
    const StreamGuard on(*stream_);
    transport_.finish();
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
    if (view != to) copy_bytes(device_, to, view, received.nbytes);
  }

  // The partial sum comes from the previous rank; it is complete when it reaches its owner.
  void add(const Transfer& received, const std::byte* view) {
    const void* sources[] = {view, in_buffer(received.piece)};
    combine_into(received.piece, sources, 2, received.piece == rank_);
  }

  void add_all(const std::vector<Transfer>& received, Views views) {
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
        device_);
  }

  const Collective& collective_;
  Transport& transport_;
  const Stream* stream_;
  int rank_;
  int size_;
  std::size_t itemsize_;
  Device device_;
  std::byte* buffer_;
  std::byte* own_;
  std::int64_t k_ = 0;
  std::vector<Transmission> transmissions_;
  std::vector<const void*> sources_;
};

}  // namespace

void copy_bytes(Device device, std::byte* to, const std::byte* from, std::size_t nbytes) {
  if (nbytes == 0) return;
  if (device.type == DeviceType::cpu) {
    std::memcpy(to, from, nbytes);
  } else {
    backend(device.type).copy(to, device, from, device, nbytes);
  }
}

Piece segment_of(const Piece& piece, std::int64_t k, std::int64_t segments) {
  constexpr std::int64_t kAlign = 16;
  const std::int64_t blocks = (piece.count + kAlign - 1) / kAlign;
  const auto edge = [&](std::int64_t i) {
    return std::min(piece.count, blocks * i / segments * kAlign);
  };
  return {piece.offset + edge(k), edge(k + 1) - edge(k)};
}

void run(std::span<const RankPart> parts) {
  std::vector<Steps> ranks(parts.begin(), parts.end());
  for (Steps& rank : ranks) rank.begin();
  const std::int64_t segments = ranks[0].segments(), at_once = ranks[0].segments_at_once();
  for (std::int64_t first = 0; first < segments; first += at_once)
    for (std::size_t step = 0; step < ranks[0].count(); ++step)
      for (std::int64_t k = first; k < std::min(first + at_once, segments); ++k) {
        for (Steps& rank : ranks) rank.send(k, step);
        for (Steps& rank : ranks) rank.receive(k, step);
      }
  for (Steps& rank : ranks) rank.finish();
}

}  // namespace ringlet::comm
