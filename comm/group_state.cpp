#include "ringlet/comm/group_state.h"

#include <algorithm>
#include <atomic>

#include "ringlet/comm/observer.h"
#include "ringlet/comm/types.h"
#include "ringlet/core/base/error.h"
#include "ringlet/core/device/graph.h"

namespace ringlet::comm {

namespace {

// Whether a kernel takes these pieces: one after another, with edges at multiples of kPieceAlign.
bool are_for_kernels(const Pieces& pieces) {
  std::int64_t edge = 0;
  for (const Piece& piece : pieces) {
    if (piece.offset != edge) return false;
    edge += piece.count;
    const bool is_end = edge == pieces.back().offset + pieces.back().count;
    if (edge % kPieceAlign != 0 && !is_end) return false;
  }
  return true;
}

}  // namespace

GroupStream::GroupStream(Device device)
    : stream(device), end(std::make_shared<StreamEvent>(device)) {
  static std::atomic<std::uint64_t> streams{0};
  id = ++streams;
}

std::shared_ptr<Collective> GroupState::plan(Op op, const Tensor& buffer, Pieces pieces,
                                             ReduceOp reduce, int root) const {
  Algorithm algorithm = this->algorithm(op, buffer.device());
  if (is_in_kernel(algorithm) && !are_for_kernels(pieces)) algorithm = steps_of(algorithm);
  // Two ranks send each other all of a small buffer: one step, of as many bytes.
  const bool whole = op == Op::all_reduce && algorithm == Algorithm::direct && member.size == 2 &&
                     buffer.device().type == DeviceType::cpu &&
                     buffer.nbytes() <= host->copies_sends();
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
      segments(device, longest * static_cast<std::int64_t>(itemsize(buffer.dtype())));
  collective->buffer = buffer;
  collective->call = call;
  collective->call.layout = hash_layout(collective->pieces, collective->segments, logical_ranks);
  if (!connects_late) collective->engine = &engine(collective->call, device);
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

// In a ring, ranks send each other partial sums in the tensor's dtype.
Work GroupState::reduce(std::shared_ptr<Collective> collective) {
  const Call& call = collective->call;
  const bool is_half = call.dtype == DType::bf16 || call.dtype == DType::f16;
  const bool rounds = is_half && call.reduce != ReduceOp::max && call.algorithm == Algorithm::ring;
  if (!rounds) return start(std::move(collective));
  return call.op == Op::all_reduce ? all_reduce_wide(*collective)
                                   : reduce_scatter_wide(*collective);
}

void GroupState::enter(Collective& collective) {
  const Device device = collective.buffer.device();
  // Ranks compare no captured launches of a kernel.
  if (!collective.captured || uses_nccl(device)) collective.call.sequence = ++sequence;
  const std::uint64_t sends =
      static_cast<std::uint64_t>(elements_sent(collective.schedule, collective.pieces)) *
      itemsize(collective.call.dtype);
  (collective.captured ? *replay_bytes : bytes_sent) += sends;

  GroupStream& stream = streams.try_emplace(device, device).first->second;
  collective.stream = &stream.stream;
  const bool on_cpu = device.type == DeviceType::cpu;  // events have no effect there
  const auto event = [&] { return on_cpu ? stream.end : std::make_shared<StreamEvent>(device); };
  collective.begin = event();
  collective.begin->record();
  collective.end = event();
  if (!collective.captured) {  // captured collectives leave the stream's end unchanged
    stream.end = collective.end;
    collective.waited = waited;
  }
  // Advances the version now, not when the bytes change.
  if (collective.writes) collective.buffer.mutable_bytes();
  collective.tensors.insert(collective.tensors.end(), {collective.buffer, collective.own});
  for (const Tensor& tensor : collective.tensors)
    if (tensor && !on_cpu) tensor.storage()->use_until(stream.id, collective.end);
}

void GroupState::run(Collective& collective) {
  const StreamGuard on(*collective.stream);
  try {
    collective.begin->make_wait();
    if (!host) {
      member.come();
      connect();
    }
    if (!collective.engine)
      collective.engine = &engine(collective.call, collective.buffer.device());
    if (options.observer) options.observer->begins(collective, member);
    const ObservedUntil end(options.observer, &CollectiveObserver::ends);
    const DeviceClock::Scope taken(collective.captured ? nullptr : running.get(),
                                   collective.end->device());
    if (collective.before) collective.before();
    collective.engine->execute(collective);
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
  if (nccl) nccl->abandon();
  if (in_kernel) in_kernel->abandon();
  if (host) host->abandon();
  try {
    collective.end->record();
  } catch (const Error&) {  // the device has failed as well and is not used any more
  }
  collective.release();
}

}  // namespace ringlet::comm
