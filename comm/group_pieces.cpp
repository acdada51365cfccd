// Checks of arguments, and collectives over pieces, one per rank. Layers over a group's
// collectives: sums of bf16 and f16 in f32, several tensors as one, strings.
#include <cstring>

#include "ringlet/comm/group.h"
#include "ringlet/comm/group_state.h"
#include "ringlet/core/base/error.h"
#include "ringlet/core/ops/index.h"

namespace ringlet::comm {

void check_tensor(Op op, const Tensor& tensor) {
  RINGLET_CHECK(tensor.defined(), "[", name(op), "] of an undefined tensor");
}

void check_root(Op op, int root, int size) {
  RINGLET_CHECK(0 <= root && root < size, "[", name(op), "] from rank ", root, " of ", size);
}

void check_reduction(Op op, ReduceOp reduce, DType dtype) {
  RINGLET_CHECK(reduce != ReduceOp::min, "[", name(op), "] reduces by sum, mean or max");
  RINGLET_CHECK(reduce != ReduceOp::mean || is_floating(dtype), "[", name(op), "] ", dtype,
                " tensors have no average: use sum");
}

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

void pack_bytes(std::byte* to, const std::vector<Tensor>& tensors) {
  for (const Tensor& tensor : tensors) {
    copy_bytes(tensor.device(), to, tensor.bytes(), tensor.nbytes());
    to += tensor.nbytes();
  }
}

namespace {

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

/// The elements of `piece`, flat. Writes to it change no version: they were announced.
Tensor announced(const Tensor& tensor, const Piece& piece) {
  std::byte* start =
      announced_bytes(tensor) + static_cast<std::size_t>(piece.offset) * itemsize(tensor.dtype());
  const std::size_t nbytes = static_cast<std::size_t>(piece.count) * itemsize(tensor.dtype());
  auto alias =
      std::make_shared<Storage>(start, nbytes, tensor.device(), [keep = tensor.storage()] {});
  return Tensor(std::move(alias), 0, {piece.count}, tensor.dtype());
}

/// `to` (n) = `from` (n), in the dtype of `to`.
std::function<void()> convert(Tensor to, Tensor from) {
  return [to = std::move(to), from = std::move(from)]() mutable {
    if (to.numel() > 0) to.copy_(from);
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
  return state_->reduce(std::move(collective));
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
  return state_->start(std::move(collective));
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
  return state_->start(std::move(collective));
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
  return state_->start(std::move(collective));
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
  return state_->start(std::move(collective));
}

// ---- layers -------------------------------------------------------------------------------------

// In a ring, ranks send each other partial sums in the tensor's dtype.
Work GroupState::reduce(std::shared_ptr<Collective> collective) {
  const Call& call = collective->call;
  const bool is_half = call.dtype == DType::bf16 || call.dtype == DType::f16;
  const bool rounds = is_half && call.reduce != ReduceOp::max && call.algorithm == Algorithm::ring;
  if (!rounds) return start(std::move(collective));
  return call.op == Op::all_reduce ? all_reduce_wide(*collective)
                                   : reduce_scatter_wide(*collective);
}

// Owners round the sums; the all-gather then sends them in the tensor's dtype.
Work GroupState::all_reduce_wide(const Collective& narrow) {
  const Tensor &tensor = narrow.buffer, wide = empty({tensor.numel()}, DType::f32, tensor.device());
  const auto sum = plan(Op::reduce_scatter, wide, narrow.pieces, narrow.call.reduce);
  sum->before = [before = narrow.before,
                 widen = convert(wide, announced(tensor, {0, tensor.numel()}))] {
    if (before) before();
    widen();
  };
  sum->tensors = {tensor};
  start(sum);

  const Piece own = narrow.pieces[static_cast<std::size_t>(member.rank)];
  const auto spread = plan(Op::all_gather, tensor, narrow.pieces);
  spread->before = convert(announced(tensor, own), wide.slice(own.offset, own.offset + own.count));
  spread->after = narrow.after;
  spread->tensors = narrow.tensors;
  spread->tensors.push_back(wide);
  return start(spread);
}

Work GroupState::reduce_scatter_wide(const Collective& narrow) {
  const Tensor &input = narrow.buffer, &output = narrow.own,
               wide = empty({input.numel()}, DType::f32, input.device());
  const Piece own = narrow.pieces[static_cast<std::size_t>(member.rank)];
  const auto sum = plan(Op::reduce_scatter, wide, narrow.pieces, narrow.call.reduce);
  sum->before = convert(wide, announced(input, {0, input.numel()}));
  sum->after = convert(announced(output, {0, output.numel()}),
                       wide.slice(own.offset, own.offset + own.count));
  sum->tensors = {input, output};
  return start(sum);
}

Work Group::all_reduce(std::vector<Tensor> tensors, ReduceOp op) const {
  RINGLET_CHECK(!tensors.empty(), "[all_reduce] of no tensors");
  std::vector<Tensor> flats;
  std::int64_t numel = 0;
  for (Tensor& tensor : tensors) {
    check_tensor(Op::all_reduce, tensor);
    check_same_device("all_reduce", tensors[0], tensor);
    RINGLET_CHECK_EQ(tensor.dtype(), tensors[0].dtype(), "[all_reduce] dtypes of the tensors");
    tensor.mutable_bytes();
    flats.push_back(tensor.view({tensor.numel()}));
    numel += tensor.numel();
  }
  if (const Tensor whole = adjacent(flats)) return all_reduce(whole, op);
  check_reduction(Op::all_reduce, op, tensors[0].dtype());
  if (size() == 1) return {};

  Tensor flat = empty({numel}, tensors[0].dtype(), tensors[0].device());
  auto collective = state_->plan(Op::all_reduce, flat, {}, op);
  collective->before = [flat, tensors] { pack_bytes(announced_bytes(flat), tensors); };
  collective->after = [flat, tensors] {
    const std::byte* from = flat.bytes();
    for (const Tensor& tensor : tensors) {
      copy_bytes(tensor.device(), announced_bytes(tensor), from, tensor.nbytes());
      from += tensor.nbytes();
    }
  };
  collective->tensors = std::move(tensors);
  return state_->reduce(std::move(collective));
}

std::vector<std::string> Group::all_gather_bytes(const std::string& bytes) const {
  if (size() == 1) return {bytes};
  const auto ranks = static_cast<std::size_t>(size()), mine = static_cast<std::size_t>(rank());
  Tensor lengths = empty({size()}, DType::i64, Device{});
  lengths.mutable_data<std::int64_t>()[mine] = static_cast<std::int64_t>(bytes.size());
  const CallerRuns here;
  state_->start(state_->plan(Op::all_gather, lengths, even_pieces(size(), size()))).wait();

  Pieces pieces(ranks);
  std::int64_t end = 0;
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    pieces[rank] = {end, lengths.data<std::int64_t>()[rank]};
    end += pieces[rank].count;
  }
  Tensor all = empty({end}, DType::u8, Device{});
  if (!bytes.empty())
    std::memcpy(all.mutable_bytes() + pieces[mine].offset, bytes.data(), bytes.size());
  state_->start(state_->plan(Op::all_gather, all, pieces)).wait();

  std::vector<std::string> out;
  const auto* text = reinterpret_cast<const char*>(all.bytes());
  for (const Piece& piece : pieces)
    out.emplace_back(text + piece.offset, static_cast<std::size_t>(piece.count));
  return out;
}

}  // namespace ringlet::comm
