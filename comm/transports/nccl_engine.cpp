// NCCL's own collectives, the yardstick for ours.
#include "ringlet/comm/engine.h"
#include "ringlet/comm/transports/nccl_rank.h"
#include "ringlet/core/base/error.h"

namespace ringlet::comm {
namespace {

ncclDataType_t type_of(DType dtype) {
  switch (dtype) {
    case DType::f32:
      return ncclFloat32;
    case DType::f64:
      return ncclFloat64;
    case DType::bf16:
      return ncclBfloat16;
    case DType::f16:
      return ncclFloat16;
    case DType::i32:
      return ncclInt32;
    case DType::i64:
      return ncclInt64;
    case DType::u8:
      break;
  }
  return ncclUint8;
}

ncclRedOp_t op_of(ReduceOp reduce) {
  return reduce == ReduceOp::max ? ncclMax : reduce == ReduceOp::mean ? ncclAvg : ncclSum;
}

bool are_equal(const Pieces& pieces) {
  for (std::size_t i = 0; i < pieces.size(); ++i)
    if (pieces[i].count != pieces[0].count ||
        pieces[i].offset != static_cast<std::int64_t>(i) * pieces[0].count)
      return false;
  return true;
}

class NcclEngine final : public Engine {
 public:
  explicit NcclEngine(NcclRank& rank) : rank_(rank) {}

  void execute(const Collective& collective) override {
    const Call& call = collective.call;
    const Tensor& buffer = collective.buffer;
    switch (call.op) {
      case Op::all_reduce:
        return all_reduce(call, buffer);
      case Op::reduce_scatter:
        return reduce_scatter(call, collective.own, buffer, collective.pieces);
      case Op::all_gather:
        return all_gather(call, buffer, collective.pieces);
      case Op::broadcast:
        return broadcast(call, buffer);
      default:
        fail("[", name(call.op), "] nccl has none of its own: choose ring or direct");
    }
  }

 private:
  void all_reduce(const Call& call, const Tensor& tensor) {
    std::byte* data = announced_bytes(tensor);
    const auto count = static_cast<std::size_t>(tensor.numel());
    enqueue(call, tensor, [&](const NcclFunctions& nccl, ncclComm_t handle, cudaStream_t stream) {
      nccl.ncclAllReduce(data, data, count, type_of(call.dtype), op_of(call.reduce), handle,
                         stream);
    });
  }

  void reduce_scatter(const Call& call, const Tensor& output, const Tensor& input,
                      const Pieces& pieces) {
    if (!are_equal(pieces))
      fail_input(
          "[reduce_scatter] NCCL's own takes equal pieces end to end: choose ring or direct");
    const auto count = static_cast<std::size_t>(pieces[0].count);
    enqueue(call, input, [&](const NcclFunctions& nccl, ncclComm_t handle, cudaStream_t stream) {
      nccl.ncclReduceScatter(announced_bytes(input), announced_bytes(output), count,
                             type_of(call.dtype), op_of(call.reduce), handle, stream);
    });
  }

  // NCCL has no all-gather of unequal pieces: each rank's piece is sent to all ranks.
  void all_gather(const Call& call, const Tensor& output, const Pieces& pieces) {
    const ncclDataType_t type = type_of(call.dtype);
    const auto at = [&](const Piece& piece) {
      return announced_bytes(output) +
             static_cast<std::size_t>(piece.offset) * itemsize(call.dtype);
    };
    enqueue(call, output, [&](const NcclFunctions& nccl, ncclComm_t handle, cudaStream_t stream) {
      const Piece& mine = pieces[static_cast<std::size_t>(rank_.rank())];
      if (are_equal(pieces)) {
        nccl.ncclAllGather(at(mine), at(pieces[0]), static_cast<std::size_t>(mine.count), type,
                           handle, stream);
        return;
      }
      for (int root = 0; root < rank_.size(); ++root) {
        const Piece& piece = pieces[static_cast<std::size_t>(root)];
        if (piece.count > 0)
          nccl.ncclBroadcast(at(piece), at(piece), static_cast<std::size_t>(piece.count), type,
                             root, handle, stream);
      }
    });
  }

  void broadcast(const Call& call, const Tensor& tensor) {
    std::byte* data = announced_bytes(tensor);
    enqueue(call, tensor, [&](const NcclFunctions& nccl, ncclComm_t handle, cudaStream_t stream) {
      nccl.ncclBroadcast(data, data, tensor.nbytes(), ncclUint8, call.root, handle, stream);
    });
  }

  void enqueue(const Call& call, const Tensor& buffer, const NcclCommunicator::Calls& calls) {
    rank_.enter(call, buffer.device());
    if (buffer.numel() > 0) rank_.group(calls);
    rank_.leave();
  }

  NcclRank& rank_;
};

}  // namespace

std::unique_ptr<Engine> make_nccl_engine(NcclRank& rank) {
  return std::make_unique<NcclEngine>(rank);
}

}  // namespace ringlet::comm
