// The collectives of a Group: the arguments of each, its plan, and the wait for its end.
#include "ringlet/comm/group.h"
#include "ringlet/comm/group_state.h"
#include "ringlet/core/base/error.h"
#include "ringlet/core/device/wait_observer.h"

namespace ringlet::comm {
namespace {

void check_pieces(Op op, const Pieces& pieces, const Tensor& whole, const Tensor& part, int rank,
                  int size) {
  RINGLET_CHECK_EQ(static_cast<int>(pieces.size()), size, "[", name(op), "] a piece per rank");
  std::int64_t end = 0;
  for (const Piece& piece : pieces) {
    RINGLET_CHECK(piece.offset >= end && piece.count >= 0, "[", name(op), "] the piece [",
                  piece.offset, ", ", piece.offset + piece.count,
                  ") does not lie behind the one before it");
    end = piece.offset + piece.count;
  }
  RINGLET_CHECK(end <= whole.numel(), "[", name(op), "] pieces end at ", end, " in a tensor of ",
                whole.numel());
  RINGLET_CHECK_EQ(part.numel(), pieces[static_cast<std::size_t>(rank)].count, "[", name(op),
                   "] elements of rank ", rank, "'s piece");
  RINGLET_CHECK_EQ(part.dtype(), whole.dtype(), "[", name(op), "] dtypes");
}

void copy_to(std::byte* to, const Tensor& from) {
  if (to != from.bytes()) copy_bytes(from.device(), to, from.bytes(), from.nbytes());
}

}  // namespace

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

void check_tensor(Op op, const Tensor& tensor) {
  RINGLET_CHECK(tensor.defined(), "[", name(op), "] of an undefined tensor");
}

void check_reduction(Op op, ReduceOp reduce, DType dtype) {
  RINGLET_CHECK(reduce != ReduceOp::min, "[", name(op), "] reduces by sum, mean or max");
  RINGLET_CHECK(reduce != ReduceOp::mean || is_floating(dtype), "[", name(op), "] ", dtype,
                " tensors have no average: use sum");
}

Work Group::all_reduce(Tensor tensor, ReduceOp op) const {
  check_tensor(Op::all_reduce, tensor);
  check_reduction(Op::all_reduce, op, tensor.dtype());
  if (size() == 1) return {};
  return {state_->queue, state_->reduce(state_->plan(Op::all_reduce, tensor, {}, op))};
}

Work Group::reduce_scatter(Tensor output, Tensor input, const Pieces& pieces, ReduceOp op) const {
  check_tensor(Op::reduce_scatter, output);
  check_tensor(Op::reduce_scatter, input);
  check_same_device("reduce_scatter", input, output);
  check_reduction(Op::reduce_scatter, op, input.dtype());
  check_pieces(Op::reduce_scatter, pieces, input, output, rank(), size());
  if (size() == 1) {
    const Tensor flat = input.view({-1});
    copy_to(output.mutable_bytes(),
            flat.slice(pieces[0].offset, pieces[0].offset + pieces[0].count));
    return {};
  }
  output.mutable_bytes();
  auto collective = state_->plan(Op::reduce_scatter, input, pieces, op);
  collective->own = output;
  return {state_->queue, state_->reduce(std::move(collective))};
}

Work Group::all_gather(Tensor output, Tensor input, const Pieces& pieces) const {
  check_tensor(Op::all_gather, output);
  check_tensor(Op::all_gather, input);
  check_same_device("all_gather", input, output);
  check_pieces(Op::all_gather, pieces, output, input, rank(), size());
  const auto offset = static_cast<std::size_t>(pieces[static_cast<std::size_t>(rank())].offset);
  const auto place_mine = [output, input, offset] {
    copy_to(announced_bytes(output) + offset * itemsize(output.dtype()), input);
  };
  if (size() == 1) {
    output.mutable_bytes();
    place_mine();
    return {};
  }
  auto collective = state_->plan(Op::all_gather, output, pieces);
  collective->before = place_mine;
  collective->tensors = {input};
  return {state_->queue, state_->start(std::move(collective))};
}

Work Group::broadcast(Tensor tensor, int root) const {
  check_tensor(Op::broadcast, tensor);
  RINGLET_CHECK(0 <= root && root < size(), "[broadcast] from rank ", root, " of ", size());
  if (size() == 1) return {};
  return {state_->queue,
          state_->start(state_->plan(Op::broadcast, tensor, {}, ReduceOp::sum, root))};
}

void Group::barrier() const {
  if (size() == 1) return;
  state_->run_now(state_->plan(Op::barrier, empty({0}, DType::u8, Device{})));
  const std::lock_guard lock(state_->calls);
  for (const auto& [device, stream] : state_->streams) stream.end->make_wait();
}

}  // namespace ringlet::comm
