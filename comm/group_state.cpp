#include "ringlet/comm/group_state.h"

#include <algorithm>

#include "ringlet/comm/observer.h"
#include "ringlet/comm/types.h"
#include "ringlet/core/base/error.h"
#include "ringlet/core/device/graph.h"

namespace ringlet::comm {

GroupState::GroupState(Membership member_, GroupOptions options_, bool connects_late_)
    : member(std::move(member_)),
      options(std::move(options_)),
      engines(member, options),
      connects_late(connects_late_) {
  RINGLET_CHECK(options.segment_bytes >= 0, "[group] segments of ", options.segment_bytes,
                " bytes");
  if (options.timed) {
    running = std::make_shared<DeviceClock>();
    waited = std::make_shared<DeviceClock>();
  }
  if (member.size > 1 && !connects_late) engines.connect();
}

std::shared_ptr<Collective> GroupState::plan(Op op, const Tensor& buffer, Pieces pieces,
                                             ReduceOp reduce, int root) const {
  const Algorithm algorithm = engines.algorithm(op, buffer.device(), pieces);
  // Two ranks send each other all of a small buffer: one step, of as many bytes.
  const bool whole = op == Op::all_reduce && algorithm == Algorithm::direct && member.size == 2 &&
                     buffer.device().type == DeviceType::cpu &&
                     buffer.nbytes() <= engines.host->copies_sends();
  if (whole) pieces.assign(2, {0, buffer.numel()});
  return plan(
      {.count = buffer.numel(),
       .root = root,
       .op = op,
       .reduce = reduce,
       .dtype = buffer.dtype(),
       .algorithm = algorithm},
      make_schedule(whole ? Op::reduce_scatter : op, algorithm, member.rank, member.size, root),
      buffer, std::move(pieces));
}

std::shared_ptr<Collective> GroupState::plan(const Call& call, Schedule schedule,
                                             const Tensor& buffer, Pieces pieces,
                                             int logical_ranks) const {
  const Device device = buffer.device();
  auto collective = std::make_shared<Collective>();
  collective->observer = options.observer;
  collective->schedule = std::move(schedule);
  collective->pieces =
      pieces.empty() ? even_pieces(call.count, count_pieces(collective->schedule), kPieceAlign)
                     : std::move(pieces);
  std::int64_t longest = 0;
  for (const Piece& piece : collective->pieces) longest = std::max(longest, piece.count);
  collective->segments =
      engines.segments(device, longest * static_cast<std::int64_t>(itemsize(buffer.dtype())));
  collective->buffer = buffer;
  collective->call = call;
  collective->call.layout = hash_layout(collective->pieces, collective->segments, logical_ranks);
  if (!connects_late) collective->engine = &engines.engine(collective->call, device);
  return collective;
}

Work GroupState::start(std::shared_ptr<Collective> collective) {
  const Device device = collective->buffer.device();
  collective->captured = is_capturing();
  RINGLET_CHECK(!collective->captured || !connects_late, "[send] transfers cannot be captured");
  const std::lock_guard lock(calls);
  if (collective->captured) {
    check_ready_for_capture(*collective);
    order_replays(device);
  }
  enter(*collective);
  if (collective->captured) {  // enqueued by the thread that captures
    run(*collective);
    collective->done = true;
  } else {
    queue->push(collective);
  }
  return {queue, std::move(collective)};
}

void GroupState::enter(Collective& collective) {
  const Device device = collective.buffer.device();
  // Ranks compare no captured launches of a kernel.
  if (!collective.captured || engines.uses_nccl(device)) collective.call.sequence = ++sequence;
  const std::uint64_t sends =
      static_cast<std::uint64_t>(elements_sent(collective.schedule, collective.pieces)) *
      itemsize(collective.call.dtype);
  (collective.captured ? *replay_bytes : bytes_sent) += sends;

  if (!collective.captured) collective.waited = waited;
  collective.tensors.insert(collective.tensors.end(), {collective.buffer, collective.own});
  streams.try_emplace(device, device).first->second.enter(collective);
  // Advances the version now, not when the bytes change.
  if (collective.writes) collective.buffer.mutable_bytes();
}

void GroupState::run(Collective& collective) {
  const StreamGuard on(*collective.stream);
  try {
    collective.begin->make_wait();
    if (!engines.host) {
      member.come();
      engines.connect();
    }
    if (!collective.engine)
      collective.engine = &engines.engine(collective.call, collective.buffer.device());
    const bool chosen = engines.choose(collective);
    if (options.observer) options.observer->begins(collective, member);
    const ObservedUntil end(options.observer, &CollectiveObserver::ends);
    const DeviceClock::Scope taken(collective.captured ? nullptr : running.get(),
                                   collective.end->device());
    if (collective.before) collective.before();
    collective.engine->execute(collective);
    if (chosen) engines.choose_for_later();
    if (collective.after) collective.after();
    collective.end->record();
  } catch (const std::exception& error) {
    abandon(collective, error);
    if (!dynamic_cast<const Error*>(&error) || dynamic_cast<const InputError*>(&error)) throw;
    throw Error(with_collective(error.what(), member.me(), collective.call));
  }
  if (!collective.captured) collective.release();
}

void GroupState::abandon(Collective& collective, const std::exception& error) {
  if (!member.store->raised()) member.store->raise(of_rank(member.me(), error.what()));
  engines.abandon();
  try {
    collective.end->record();
  } catch (const Error&) {  // the device has failed as well and is not used any more
  }
  collective.release();
}

}  // namespace ringlet::comm
