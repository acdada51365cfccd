// Layers over a group's collectives: sums of bf16 and f16 in f32, and several tensors as one.
#include "ringlet/comm/group.h"
#include "ringlet/comm/group_state.h"
#include "ringlet/core/error.h"

namespace ringlet::comm {
namespace {

/// The tensors as one, if they are contiguous in one storage; undefined otherwise.
Tensor end_to_end(const std::vector<Tensor>& tensors) {
  std::size_t end = tensors[0].storage_offset();
  for (const Tensor& tensor : tensors) {
    if (tensor.storage() != tensors[0].storage() || tensor.storage_offset() != end) return {};
    end += tensor.nbytes();
  }
  const std::size_t nbytes = end - tensors[0].storage_offset();
  const DType dtype = tensors[0].dtype();
  return Tensor(tensors[0].storage(), tensors[0].storage_offset(),
                {static_cast<std::int64_t>(nbytes / itemsize(dtype))}, dtype);
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

bool GroupState::travels_wide(Op op, const Tensor& tensor, ReduceOp reduce) const {
  return algorithm(op, tensor.device()) == Algorithm::ring && reduce != ReduceOp::max &&
         (tensor.dtype() == DType::bf16 || tensor.dtype() == DType::f16);
}

std::shared_ptr<WorkState> GroupState::all_reduce_wide(const Tensor& tensor, ReduceOp op,
                                                       const Pieces& pieces, Around around) {
  // Owners round the sums; the all-gather then sends them in the tensor's dtype.
  const Piece own = pieces[static_cast<std::size_t>(member.rank)];
  const Tensor wide = empty({tensor.numel()}, DType::f32, tensor.device());
  Collective spread = plan(Op::all_gather, tensor, pieces);
  const auto widen = [before = std::move(around.before),
                      fill = convert(wide, announced(tensor, {0, tensor.numel()}))] {
    if (before) before();
    fill();
  };
  start(plan(Op::reduce_scatter, wide, pieces, op), {widen, {}, {tensor}});
  const auto round =
      convert(announced(tensor, own), wide.slice(own.offset, own.offset + own.count));
  around.tensors.push_back(wide);
  return start(std::move(spread), {round, std::move(around.after), std::move(around.tensors)});
}

std::shared_ptr<WorkState> GroupState::reduce_scatter_wide(const Tensor& output,
                                                           const Tensor& input, ReduceOp op,
                                                           const Pieces& pieces) {
  const Tensor wide = empty({input.numel()}, DType::f32, input.device());
  const Piece own = pieces[static_cast<std::size_t>(member.rank)];
  return start(plan(Op::reduce_scatter, wide, pieces, op),
               {convert(wide, announced(input, {0, input.numel()})),
                convert(announced(output, {0, output.numel()}),
                        wide.slice(own.offset, own.offset + own.count)),
                {input, output}});
}

Work Group::all_reduce(std::vector<Tensor> tensors, ReduceOp op) const {
  RINGLET_CHECK(!tensors.empty(), "[all_reduce] of no tensors");
  std::int64_t numel = 0;
  for (Tensor& tensor : tensors) {
    check_tensor(Op::all_reduce, tensor);
    check_same_device("all_reduce", tensors[0], tensor);
    RINGLET_CHECK_EQ(tensor.dtype(), tensors[0].dtype(), "[all_reduce] dtypes of the tensors");
    tensor.mutable_bytes();
    numel += tensor.numel();
  }
  if (const Tensor whole = end_to_end(tensors)) return all_reduce(whole, op);
  check_reduction(Op::all_reduce, op, tensors[0].dtype());
  if (size() == 1) return {};

  Tensor flat = empty({numel}, tensors[0].dtype(), tensors[0].device());
  const auto pack = [flat, tensors]() mutable {
    std::byte* to = flat.mutable_bytes();
    for (const Tensor& tensor : tensors) {
      copy_bytes(tensor.device(), to, tensor.bytes(), tensor.nbytes());
      to += tensor.nbytes();
    }
  };
  const auto unpack = [flat, tensors] {
    const std::byte* from = flat.bytes();
    for (const Tensor& tensor : tensors) {
      copy_bytes(tensor.device(), announced_bytes(tensor), from, tensor.nbytes());
      from += tensor.nbytes();
    }
  };
  return state_->all_reduce(flat, op, {pack, unpack, tensors});
}

}  // namespace ringlet::comm
