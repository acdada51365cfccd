#include "ringlet/comm/group_state.h"

#include <algorithm>
#include <atomic>
#include <ostream>

#include "ringlet/comm/in_kernel.h"
#include "ringlet/comm/trace.h"
#include "ringlet/core/error.h"
#include "ringlet/core/graph.h"

namespace ringlet::comm {

// NCCL's own collectives take tensors on GPUs. CPU tensors of such a group are small and go direct.
Algorithm GroupState::algorithm(Op op, Device device) const {
  const bool on_cpu = device.type == DeviceType::cpu;
  const bool one_launch = op == Op::all_reduce && !on_cpu;
  switch (options.algorithm) {
    case Algorithm::automatic:
      return Algorithm::direct;
    case Algorithm::native:
      return on_cpu && options.transport == TransportKind::nccl ? Algorithm::direct
                                                                : Algorithm::native;
    case Algorithm::in_kernel_ring:
      return one_launch ? options.algorithm : Algorithm::ring;
    case Algorithm::in_kernel_direct:
      return one_launch ? options.algorithm : Algorithm::direct;
    default:
      return options.algorithm;
  }
}

std::int64_t GroupState::segments(Device device, std::int64_t longest_bytes) const {
  constexpr std::int64_t kMostOfCpu = std::int64_t{512} << 10,
                         kLeastOfDevice = std::int64_t{4} << 20;
  constexpr std::int64_t kMostOnDevice = 4;
  // On a device, launches cost more than the cache gains.
  if (device.type != DeviceType::cpu && options.segment_bytes == 0)
    return std::clamp<std::int64_t>(longest_bytes / kLeastOfDevice, 1, kMostOnDevice);
  // A segment of this size is still in the cache when its result comes back.
  const std::int64_t most = options.segment_bytes > 0 ? options.segment_bytes : kMostOfCpu;
  return std::max<std::int64_t>(1, (longest_bytes + most - 1) / most);
}

Collective GroupState::plan(Op op, Tensor buffer, Pieces pieces, ReduceOp reduce, int root) const {
  const Device device = buffer.device();
  if (device.type != DeviceType::cpu && !nccl && host_kind != TransportKind::thread)
    fail("[", name(op), "] of a tensor on ", device, ": ", why_no_nccl());
  std::int64_t longest = 0;
  for (const Piece& piece : pieces) longest = std::max(longest, piece.count);
  const Algorithm algorithm = this->algorithm(op, device);
  const std::int64_t longest_bytes = longest * static_cast<std::int64_t>(itemsize(buffer.dtype()));
  const std::int64_t count = is_in_kernel(algorithm) ? 1 : segments(device, longest_bytes);
  buffer.mutable_bytes();  // advances the version now, not when the bytes change
  return {.call = {.count = buffer.numel(),
                   .layout = hash_layout(pieces, count),
                   .root = root,
                   .op = op,
                   .reduce = reduce,
                   .dtype = buffer.dtype(),
                   .algorithm = algorithm},
          .schedule = make_schedule(op, algorithm, member.rank, member.size, root),
          .pieces = std::move(pieces),
          .segments = count,
          .buffer = buffer,
          .own = {}};
}

Line::Line(Device device) : stream(device), end(std::make_shared<Event>(device)) {
  static std::atomic<std::uint64_t> lines{0};
  id = ++lines;
}

Line& GroupState::line(Device device) { return lines.try_emplace(device, device).first->second; }

DeviceRanks& GroupState::ranks(Line& line, Device device) const {
  const double seconds = std::chrono::duration<double>(member.timeout).count();
  if (!line.ranks) line.ranks = backend(device.type).make_ranks(device, member.size, seconds);
  RINGLET_CHECK(line.ranks, "[all_reduce] ", device, " runs no ranks by one launch");
  return *line.ranks;
}

void run_collective(std::span<const RankPart> parts) {
  const Collective& collective = *parts[0].collective;
  const Algorithm algorithm = collective.call.algorithm;
  if (algorithm == Algorithm::native) return parts[0].transport->engine()->run(collective);
  if (is_in_kernel(algorithm)) return run_in_kernel(parts);
  run(parts);
}

void GroupState::run(const Collective& collective, const Stream& stream) {
  if (options.trace) *options.trace << trace(collective, member.rank, member.size) << std::flush;
  Transport& transport = transport_of(collective.buffer.device());
  const RankPart part{&collective, &transport, &stream, member.rank, member.size};
  run_collective({&part, 1});
}

Prepared GroupState::prepare(Collective collective, Around around) {
  collective.call.sequence = ++sequence;
  bytes_sent += static_cast<std::uint64_t>(elements_sent(collective.schedule, collective.pieces)) *
                itemsize(collective.call.dtype);
  const Device device = collective.buffer.device();
  Line& line = this->line(device);
  if (member.rank == 0 && is_in_kernel(collective.call.algorithm))
    collective.ranks = &ranks(line, device);
  auto begin = std::make_shared<Event>(device), end = std::make_shared<Event>(device);
  begin->record();
  if (!is_capturing()) line.end = end;  // captured collectives leave it unchanged
  around.tensors.insert(around.tensors.end(), {collective.buffer, collective.own});
  for (const Tensor& tensor : around.tensors)
    if (tensor) tensor.storage()->use_until(line.id, end);
  return {std::move(collective), std::move(around), &line.stream, std::move(begin), std::move(end)};
}

WorkState GroupState::task(Prepared prepared) {
  auto task = std::make_shared<Task>();
  std::shared_ptr<Event> end = prepared.end;
  task->run = [this, prepared = std::move(prepared)]() mutable {
    const StreamGuard on(*prepared.stream);
    const Prepared own = std::move(prepared);  // its tensors are released here, on their stream
    run_task(own);
  };
  return {queue, std::move(task), std::move(end), is_capturing() ? nullptr : waited};
}

void GroupState::begin_task(const Prepared& prepared) {
  prepared.begin->make_wait();
  if (prepared.around.before) prepared.around.before();
}

void GroupState::end_task(const Prepared& prepared) {
  if (prepared.around.after) prepared.around.after();
  prepared.end->record();
}

void GroupState::raise(const std::exception& error) {
  if (!member.alarm->raised()) member.alarm->raise(str("rank ", member.rank, ": ", error.what()));
}

void GroupState::fail_task(const Prepared& prepared, const std::exception& error) {
  raise(error);
  if (nccl) nccl->abandon();
  transport->abandon();
  try {
    prepared.end->record();
  } catch (const Error&) {
    // The device has failed as well and is not used any more.
  }
}

void GroupState::run_task(const Prepared& prepared) {
  try {
    begin_task(prepared);
    const DeviceClock::Scope taken(is_capturing() ? nullptr : running.get(),
                                   prepared.collective.buffer.device());
    run(prepared.collective, *prepared.stream);
    end_task(prepared);
  } catch (const std::exception& error) {
    fail_task(prepared, error);
    if (!dynamic_cast<const Error*>(&error) || dynamic_cast<const InputError*>(&error)) throw;
    throw Error(with_collective(error.what(), member.rank, prepared.collective.call));
  }
}

std::shared_ptr<WorkState> GroupState::start(Collective collective, Around around) {
  const bool captured = is_capturing();
  RINGLET_CHECK(gathered || !captured || uses_nccl(collective.buffer.device()), "[",
                name(collective.call.op),
                "] ranks in threads of their own cannot be captured, together() they can");
  const std::lock_guard lock(calls);
  if (captured && !gathered) {
    check_ready_for_capture(collective);
    order_replays(collective.buffer.device());
  }
  Prepared prepared = prepare(std::move(collective), std::move(around));
  if (gathered) {
    gathered->push_back(std::move(prepared));
    return nullptr;
  }
  std::vector<Tensor> tensors;
  if (captured) tensors = prepared.around.tensors;
  auto work = std::make_shared<WorkState>(task(std::move(prepared)));
  work->tensors = std::move(tensors);
  if (captured) {
    run_here(*work->task);
  } else {
    queue->push(work->task);
  }
  return work;
}

void GroupState::run_now(Collective collective) {
  RINGLET_CHECK(!gathered, "[", name(collective.call.op), "] waits, which together() cannot");
  std::shared_ptr<Task> now;
  {
    const std::lock_guard lock(calls);
    now = task(prepare(std::move(collective), {})).task;
    queue->push_quietly(now);
  }
  queue->wait(*now);
}

}  // namespace ringlet::comm
