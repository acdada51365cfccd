// Collectives over pieces, one per rank.
#include "ringlet/comm/group.h"
#include "ringlet/comm/group_state.h"
#include "ringlet/core/base/error.h"

namespace ringlet::comm {
namespace {

/// `part` is this rank's piece. `whole` may be empty: it is another rank's.
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
  RINGLET_CHECK_EQ(part.numel(), pieces[static_cast<std::size_t>(rank)].count, "[", name(op),
                   "] elements of rank ", rank, "'s piece");
  if (!whole) return;
  RINGLET_CHECK(end <= whole.numel(), "[", name(op), "] pieces end at ", end, " in a tensor of ",
                whole.numel());
  RINGLET_CHECK_EQ(part.dtype(), whole.dtype(), "[", name(op), "] dtypes");
}

void copy_to(std::byte* to, const Tensor& from) {
  if (to != from.bytes()) copy_bytes(from.device(), to, from.bytes(), from.nbytes());
}

/// Copies `mine` to this rank's piece of `whole`.
std::function<void()> place(const Tensor& whole, const Pieces& pieces, int rank,
                            const Tensor& mine) {
  const auto offset = static_cast<std::size_t>(pieces[static_cast<std::size_t>(rank)].offset);
  return [=] { copy_to(announced_bytes(whole) + offset * itemsize(whole.dtype()), mine); };
}

}  // namespace

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
  return collective;
}

Work Group::gather(Tensor output, Tensor input, const Pieces& pieces, int root) const {
  check_root(Op::gather, root, size());
  check_tensor(Op::gather, input);
  const bool at_root = rank() == root;
  if (at_root) check_same_device("gather", input, output);
  check_pieces(Op::gather, pieces, at_root ? output : Tensor(), input, rank(), size());
  const auto place_mine = place(output, pieces, rank(), input);
  if (size() == 1) {
    output.mutable_bytes();
    place_mine();
    return {};
  }
  auto collective = state_->plan_rooted(Op::gather, output, input, pieces, root);
  collective->writes = at_root;
  if (at_root) collective->before = place_mine;
  collective->tensors = {input};
  return {state_->queue, state_->start(std::move(collective))};
}

Work Group::scatter(Tensor output, Tensor input, const Pieces& pieces, int root) const {
  check_root(Op::scatter, root, size());
  check_tensor(Op::scatter, output);
  const bool at_root = rank() == root;
  if (at_root) check_same_device("scatter", input, output);
  check_pieces(Op::scatter, pieces, at_root ? input : Tensor(), output, rank(), size());
  output.mutable_bytes();
  const auto take_mine = [=, mine = pieces[static_cast<std::size_t>(rank())]] {
    copy_bytes(input.device(), announced_bytes(output),
               input.bytes() + static_cast<std::size_t>(mine.offset) * itemsize(input.dtype()),
               output.nbytes());
  };
  if (size() == 1) {
    take_mine();
    return {};
  }
  auto collective = state_->plan_rooted(Op::scatter, input, output, pieces, root);
  collective->writes = !at_root;
  if (at_root) collective->before = take_mine;
  collective->tensors = {output};
  return {state_->queue, state_->start(std::move(collective))};
}

Work Group::all_to_all(Tensor output, Tensor input, const Pieces& pieces) const {
  check_tensor(Op::all_to_all, output);
  check_tensor(Op::all_to_all, input);
  check_same_device("all_to_all", input, output);
  RINGLET_CHECK(output.dim() > 0 && output.size(0) == size(), "[all_to_all] output is ",
                output.shape(), ", expected a row per rank, of which there are ", size());
  const Tensor first = output.view({size(), -1})[0];
  check_pieces(Op::all_to_all, pieces, input, first, rank(), size());
  output.mutable_bytes();
  if (size() == 1) {
    const Piece& mine = pieces[0];
    copy_to(announced_bytes(output), input.view({-1}).slice(mine.offset, mine.offset + mine.count));
    return {};
  }
  auto collective = state_->plan(Op::all_to_all, input, pieces);
  collective->writes = false;
  collective->own = output;
  return {state_->queue, state_->start(std::move(collective))};
}

}  // namespace ringlet::comm
