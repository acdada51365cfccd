// Collectives over pieces, one per rank.
#include "ringlet/comm/group.h"
#include "ringlet/comm/group_state.h"
#include "ringlet/core/base/error.h"

namespace ringlet::comm {
namespace {

/// `part` is this rank's piece. `whole` is null where another rank has it.
void check_pieces(Op op, const Pieces& pieces, const Tensor* whole, const Tensor& part, int rank,
                  int size) {
  check_tensor(op, part);
  RINGLET_CHECK_EQ(static_cast<int>(pieces.size()), size, "[", name(op), "] a piece per rank");
  std::int64_t end = 0;
  for (const Piece& piece : pieces) {
    RINGLET_CHECK(piece.offset >= end && piece.count >= 0, "[", name(op), "] the piece [",
                  piece.offset, ", ", piece.offset + piece.count,
                  ") does not lie behind the one before it");
    end = piece.offset + piece.count;
  }
  RINGLET_CHECK_EQ(part.numel(), pieces[static_cast<std::size_t>(rank)].count, "[", name(op),
                   "] elements of rank ", rank, "'s piece");
  if (!whole) return;
  check_tensor(op, *whole);
  check_same_device(std::string(name(op)).c_str(), *whole, part);
  RINGLET_CHECK(end <= whole->numel(), "[", name(op), "] pieces end at ", end, " in a tensor of ",
                whole->numel());
  RINGLET_CHECK_EQ(part.dtype(), whole->dtype(), "[", name(op), "] dtypes");
}

std::size_t offset_of(const Pieces& pieces, int rank, const Tensor& whole) {
  return static_cast<std::size_t>(pieces[static_cast<std::size_t>(rank)].offset) *
         itemsize(whole.dtype());
}

void copy(std::byte* to, const std::byte* from, const Tensor& part) {
  if (to != from) copy_bytes(part.device(), to, from, part.nbytes());
}

/// Copies this rank's piece to its place in `whole`, or from there.
std::function<void()> place(const Tensor& whole, const Pieces& pieces, int rank,
                            const Tensor& piece) {
  return [=, offset = offset_of(pieces, rank, whole)] {
    copy(announced_bytes(whole) + offset, piece.bytes(), piece);
  };
}
std::function<void()> take(const Tensor& piece, const Tensor& whole, const Pieces& pieces,
                           int rank) {
  return [=, offset = offset_of(pieces, rank, whole)] {
    copy(announced_bytes(piece), whole.bytes() + offset, piece);
  };
}

}  // namespace

Work Group::reduce_scatter(Tensor output, Tensor input, const Pieces& pieces, ReduceOp op) const {
  check_pieces(Op::reduce_scatter, pieces, &input, output, rank(), size());
  check_reduction(Op::reduce_scatter, op, input.dtype());
  output.mutable_bytes();
  if (size() == 1) return take(output, input, pieces, 0)(), Work();
  auto collective = state_->plan(Op::reduce_scatter, input, pieces, op);
  collective->own = output;
  return {state_->queue, state_->reduce(std::move(collective))};
}

Work Group::all_gather(Tensor output, Tensor input, const Pieces& pieces) const {
  check_pieces(Op::all_gather, pieces, &output, input, rank(), size());
  const auto place_mine = place(output, pieces, rank(), input);
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

std::shared_ptr<Collective> GroupState::plan_rooted(Op op, const Tensor& whole, const Tensor& part,
                                                    const Pieces& pieces, int root) const {
  const bool at_root = member.rank == root;
  auto collective = plan(op, at_root ? whole : part, pieces, ReduceOp::sum, root);
  collective->call.count = pieces.back().offset + pieces.back().count;
  if (!at_root) {  // the buffer is this rank's piece alone
    collective->pieces.assign(pieces.size(), {});
    collective->pieces[static_cast<std::size_t>(member.rank)] = {0, part.numel()};
  }
  collective->tensors = {part};
  return collective;
}

Work Group::gather(Tensor output, Tensor input, const Pieces& pieces, int root) const {
  check_root(Op::gather, root, size());
  const bool at_root = rank() == root;
  check_pieces(Op::gather, pieces, at_root ? &output : nullptr, input, rank(), size());
  if (size() == 1) return all_gather(output, input, pieces);
  auto collective = state_->plan_rooted(Op::gather, output, input, pieces, root);
  collective->writes = at_root;
  if (at_root) collective->before = place(output, pieces, rank(), input);
  return {state_->queue, state_->start(std::move(collective))};
}

Work Group::scatter(Tensor output, Tensor input, const Pieces& pieces, int root) const {
  check_root(Op::scatter, root, size());
  const bool at_root = rank() == root;
  check_pieces(Op::scatter, pieces, at_root ? &input : nullptr, output, rank(), size());
  if (size() == 1) return reduce_scatter(output, input, pieces);
  auto collective = state_->plan_rooted(Op::scatter, input, output, pieces, root);
  collective->writes = !at_root;
  if (at_root) {
    output.mutable_bytes();
    collective->before = take(output, input, pieces, rank());
  }
  return {state_->queue, state_->start(std::move(collective))};
}

Work Group::all_to_all(Tensor output, Tensor input, const Pieces& pieces) const {
  check_tensor(Op::all_to_all, output);
  RINGLET_CHECK(output.dim() > 0 && output.size(0) == size(), "[all_to_all] output is ",
                output.shape(), ", expected a row per rank, of which there are ", size());
  const Tensor first = output.view({size(), -1})[0];
  check_pieces(Op::all_to_all, pieces, &input, first, rank(), size());
  if (size() == 1) return reduce_scatter(first, input, pieces);
  output.mutable_bytes();
  auto collective = state_->plan(Op::all_to_all, input, pieces);
  collective->writes = false;
  collective->own = output;
  return {state_->queue, state_->start(std::move(collective))};
}

}  // namespace ringlet::comm
