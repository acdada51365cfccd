#include "ringlet/comm/group.h"

#include "ringlet/comm/group_state.h"
#include "ringlet/core/base/error.h"
#include "ringlet/core/device/observers.h"

namespace ringlet::comm {

Group::Group(std::shared_ptr<Store> store, int rank, int size, GroupOptions options,
             const std::string& id, const std::vector<int>& names) {
  RINGLET_CHECK(0 <= rank && rank < size, "[group] rank ", rank, " of ", size);
  state_ = GroupState::shared(
      {std::move(store), rank, size, options.timeout, id, options.on_note, names}, options);
}

// All worlds of one are the same.
Group::Group() {
  static const auto alone = std::make_shared<GroupState>(
      Membership{make_memory_store(), 0, 1, {}, "world"}, GroupOptions());
  state_ = alone;
}

int Group::rank() const { return state_->member.rank; }
int Group::size() const { return state_->member.size; }
const GroupOptions& Group::options() const { return state_->options; }
Store& Group::store() const { return *state_->member.store; }
GroupStats Group::stats() const { return state_->stats(); }
TransportKind Group::transport(Device device) const { return state_->engines.transport(device); }
Algorithm Group::algorithm(Device device) const {
  const Algorithm planned = state_->engines.algorithm(Op::all_reduce, device);
  return planned == Algorithm::automatic ? state_->engines.automatic() : planned;
}

Work::Work(std::shared_ptr<Queue> queue, std::shared_ptr<Collective> collective)
    : queue_(std::move(queue)), collective_(std::move(collective)) {}

void Work::wait() const {
  if (!collective_) return;
  queue_->wait(*collective_);
  const ObservedWait observed(collective_->waited ? "collectives" : nullptr);
  const DeviceClock::Scope waited(collective_->waited.get(), collective_->end->device());
  collective_->end->make_wait();
  // No event of a capture says when the tensors' memory is free, so they were kept until here.
  if (collective_->captured) collective_->release();
}

bool Work::done() const { return !collective_ || collective_->done; }

void Work::when_done(std::function<void(std::exception_ptr)> ended) const {
  collective_ ? queue_->when_done(*collective_, std::move(ended)) : ended(nullptr);
}

Work Group::all_reduce(Tensor tensor, ReduceOp op) const {
  check_tensor(Op::all_reduce, tensor);
  check_reduction(Op::all_reduce, op, tensor.dtype());
  if (size() == 1) return {};
  return state_->reduce(state_->plan(Op::all_reduce, tensor, {}, op));
}

Work Group::broadcast(Tensor tensor, int root) const {
  check_tensor(Op::broadcast, tensor);
  check_root(Op::broadcast, root, size());
  if (size() == 1) return {};
  return state_->start(state_->plan(Op::broadcast, tensor, {}, ReduceOp::sum, root));
}

void Group::barrier() const {
  if (size() == 1) return;
  const CallerRuns here;
  start_barrier().wait();
  const std::lock_guard lock(state_->calls);
  for (const auto& [device, stream] : state_->streams) stream.end->make_wait();
}

Work Group::start_barrier() const {
  if (size() == 1) return {};
  return state_->start(state_->plan(Op::barrier, empty({0}, DType::u8, Device{})));
}

}  // namespace ringlet::comm
