// The collectives of a Group: the arguments of each, and its plan.
#include <algorithm>
#include <cstring>

#include "ringlet/comm/group.h"
#include "ringlet/comm/group_state.h"
#include "ringlet/core/base/error.h"

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

void copy_bytes(std::byte* to, const Tensor& from) {
  if (to != from.bytes()) comm::copy_bytes(from.device(), to, from.bytes(), from.nbytes());
}

}  // namespace

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
    copy_bytes(output.mutable_bytes(),
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
    copy_bytes(announced_bytes(output) + offset * itemsize(output.dtype()), input);
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

std::vector<std::string> Group::all_gather_bytes(const std::string& bytes) const {
  if (size() == 1) return {bytes};
  const auto ranks = static_cast<std::size_t>(size()), mine = static_cast<std::size_t>(rank());
  Tensor lengths = empty({size()}, DType::i64, Device{});
  lengths.mutable_data<std::int64_t>()[mine] = static_cast<std::int64_t>(bytes.size());
  state_->run_now(state_->plan(Op::all_gather, lengths, even_pieces(size(), size())));

  Pieces pieces(ranks);
  std::int64_t end = 0;
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    pieces[rank] = {end, lengths.data<std::int64_t>()[rank]};
    end += pieces[rank].count;
  }
  Tensor all = empty({end}, DType::u8, Device{});
  if (!bytes.empty())
    std::memcpy(all.mutable_bytes() + pieces[mine].offset, bytes.data(), bytes.size());
  state_->run_now(state_->plan(Op::all_gather, all, pieces));

  std::vector<std::string> out;
  const auto* text = reinterpret_cast<const char*>(all.bytes());
  for (const Piece& piece : pieces)
    out.emplace_back(text + piece.offset, static_cast<std::size_t>(piece.count));
  return out;
}

}  // namespace ringlet::comm
