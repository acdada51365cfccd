#include "ringlet/comm/group_state.h"

#include <algorithm>
#include <ostream>

#include "ringlet/comm/trace.h"
#include "ringlet/core/error.h"

namespace ringlet::comm {

Schedule Group::State::schedule(Op op, int root) const {
  if (algorithm() == Algorithm::native) return {};
  const int rank = member.rank, size = member.size;
  const bool ring = algorithm() == Algorithm::ring;
  switch (op) {
    case Op::all_reduce:
      return ring ? ring_all_reduce(rank, size) : direct_all_reduce(rank, size);
    case Op::reduce_scatter:
      return ring ? ring_reduce_scatter(rank, size) : direct_reduce_scatter(rank, size);
    case Op::all_gather:
      return ring ? ring_all_gather(rank, size) : direct_all_gather(rank, size);
    case Op::broadcast:
      return ring ? ring_broadcast(rank, size, root) : direct_broadcast(rank, size, root);
    case Op::barrier:
      break;
  }
  return barrier_schedule(rank, size);
}

Collective Group::State::plan(Op op, Tensor buffer, Pieces pieces, ReduceOp reduce,
                              int root) const {
  std::int64_t longest = 0;
  for (const Piece& piece : pieces) longest = std::max(longest, piece.count);
  longest *= static_cast<std::int64_t>(itemsize(buffer.dtype()));
  const std::int64_t segments =
      std::max<std::int64_t>(1, (longest + options.segment_bytes - 1) / options.segment_bytes);
  buffer.mutable_bytes();  // moves the version on now, not when the bytes change
  return {.call = {.count = buffer.numel(),
                   .layout = hash_layout(pieces, segments),
                   .root = root,
                   .op = op,
                   .reduce = reduce,
                   .dtype = buffer.dtype(),
                   .algorithm = algorithm()},
          .schedule = schedule(op, root),
          .pieces = std::move(pieces),
          .segments = segments,
          .buffer = buffer,
          .own = {}};
}

void Group::State::run(Collective& collective) {
  if (options.trace) *options.trace << trace(collective, member.rank, member.size) << std::flush;
  if (algorithm() == Algorithm::native) return run_native(collective);
  comm::run(collective, *transport, member.rank, member.size);
}

void Group::State::run_native(Collective& collective) {
  Engine& engine = *transport->engine();
  switch (collective.call.op) {
    case Op::all_reduce:
      return engine.all_reduce(collective.call, collective.buffer);
    case Op::all_gather:
      return engine.all_gather(collective.call, collective.buffer, collective.pieces);
    case Op::broadcast:
      return engine.broadcast(collective.call, collective.buffer);
    case Op::barrier:
      return engine.barrier(collective.call);
    case Op::reduce_scatter:
      break;
  }
  fail("[", name(collective.call.op), "] ", name(options.transport),
       " has none of its own: choose ring or direct");
}

std::shared_ptr<Task> Group::State::task(Collective collective, Around around) {
  collective.call.sequence = ++sequence;
  bytes_sent += static_cast<std::uint64_t>(elements_sent(collective.schedule, collective.pieces)) *
                itemsize(collective.call.dtype);
  auto task = std::make_shared<Task>();
  const auto failed = [this](const std::exception& error) {
    if (!member.alarm->raised()) member.alarm->raise(str("rank ", member.rank, ": ", error.what()));
    transport->abandon();
  };
  task->run = [this, failed, collective = std::move(collective),
               around = std::move(around)]() mutable {
    try {
      if (around.before) around.before();
      run(collective);
      if (around.after) around.after();
    } catch (const InputError& error) {
      failed(error);
      throw;
    } catch (const Error& error) {
      failed(error);
      throw Error(with_collective(error.what(), member.rank, collective.call));
    } catch (const std::exception& error) {
      failed(error);
      throw;
    }
  };
  return task;
}

Work Group::State::start(Collective collective, Around around) {
  const std::lock_guard lock(calls);
  Work work;
  work.state_ = std::make_shared<Work::State>(
      Work::State{queue, task(std::move(collective), std::move(around))});
  queue->push(work.state_->task);
  return work;
}

void Group::State::run_now(Collective collective) {
  std::shared_ptr<Task> now;
  {
    const std::lock_guard lock(calls);
    now = task(std::move(collective), {});
    queue->push_quietly(now);
  }
  queue->wait(*now);
}

}  // namespace ringlet::comm
