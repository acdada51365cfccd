// gloo's own collectives, the yardstick for ours. Only the arithmetic is ours, in gloo's callback.
// gloo compares no calls: ranks that disagree detect it by the timeout at best.
#include <gloo/allgatherv.h>
#include <gloo/allreduce.h>
#include <gloo/barrier.h>
#include <gloo/broadcast.h>

#include "ringlet/comm/engine.h"
#include "ringlet/comm/transports/gloo.h"
#include "ringlet/core/base/error.h"
#include "ringlet/core/ops/combine.h"

namespace ringlet::comm {
namespace {

/// Messages of calls that differ do not match: an unexpected length would throw on gloo's thread,
/// and so end the process.
std::uint32_t tag_of(const Call& call) {
  std::uint32_t hash = 2166136261;  // FNV-1a
  for (const std::uint64_t part :
       {std::uint64_t{call.sequence}, static_cast<std::uint64_t>(call.op),
        static_cast<std::uint64_t>(call.dtype), static_cast<std::uint64_t>(call.reduce),
        static_cast<std::uint64_t>(call.root), static_cast<std::uint64_t>(call.count), call.layout})
    for (int byte = 0; byte < 8; ++byte) hash = (hash ^ ((part >> (8 * byte)) & 0xFF)) * 16777619;
  return hash;
}

class GlooEngine final : public Engine {
 public:
  GlooEngine(const Membership& membership, std::shared_ptr<::gloo::Context> context)
      : membership_(membership), context_(std::move(context)) {}

  void execute(const Collective& collective) override {
    const Call& call = collective.call;
    Tensor buffer = collective.buffer;
    switch (call.op) {
      case Op::all_reduce:
        return all_reduce(call, buffer);
      case Op::all_gather:
        return all_gather(call, buffer, collective.pieces);
      case Op::broadcast:
        return broadcast(call, buffer);
      case Op::barrier:
        return barrier(call);
      default:
        fail("[", name(call.op), "] gloo has none of its own: choose ring or direct");
    }
  }

 private:
  void all_reduce(const Call& call, Tensor& tensor) {
    auto options = native<::gloo::AllreduceOptions>(call);
    const DType dtype = call.dtype;
    const CombineOp op = call.reduce == ReduceOp::max ? CombineOp::max : CombineOp::sum;
    options.setReduceFunction([=](void* out, const void* a, const void* b, std::size_t n) {
      const void* sources[] = {a, b};
      combine_kernel({out, sources, 2, static_cast<std::int64_t>(n), op, 1.0, dtype}, Device{});
    });
    if (tensor.numel() == 0) return;
    with_elements(options, tensor);
    guarded(call, [&] { ::gloo::allreduce(options); });
    if (call.reduce == ReduceOp::mean)
      combine(tensor, std::span(&tensor, 1), CombineOp::sum, 1.0 / membership_.size);
  }

  void all_gather(const Call& call, Tensor& output, const Pieces& pieces) {
    auto options = native<::gloo::AllgathervOptions>(call);
    std::vector<std::size_t> nbytes;
    std::int64_t end = 0;
    for (const Piece& piece : pieces) {
      RINGLET_CHECK_EQ(piece.offset, end, "[all_gather] gloo takes pieces without gaps");
      end += piece.count;
      nbytes.push_back(static_cast<std::size_t>(piece.count) * itemsize(output.dtype()));
    }
    if (end == 0) return;
    options.setOutput(reinterpret_cast<std::uint8_t*>(announced_bytes(output)), nbytes);
    guarded(call, [&] { ::gloo::allgatherv(options); });
  }

  void broadcast(const Call& call, Tensor& tensor) {
    auto options = native<::gloo::BroadcastOptions>(call);
    if (tensor.nbytes() == 0) return;
    options.setRoot(call.root);
    options.setOutput(reinterpret_cast<std::uint8_t*>(announced_bytes(tensor)), tensor.nbytes());
    guarded(call, [&] { ::gloo::broadcast(options); });
  }

  void barrier(const Call& call) {
    auto options = native<::gloo::BarrierOptions>(call);
    guarded(call, [&] { ::gloo::barrier(options); });
  }

  template <class Options>
  Options native(const Call& call) {
    membership_.check_alarm();
    Options options(context_);
    options.setTag(tag_of(call));
    options.setTimeout(membership_.timeout);
    return options;
  }

  static void with_elements(::gloo::AllreduceOptions& options, Tensor& tensor) {
    const auto n = static_cast<std::size_t>(tensor.numel());
    std::byte* data = announced_bytes(tensor);
    switch (itemsize(tensor.dtype())) {
      case 1:
        return options.setOutput(reinterpret_cast<std::uint8_t*>(data), n);
      case 2:
        return options.setOutput(reinterpret_cast<std::uint16_t*>(data), n);
      case 4:
        return options.setOutput(reinterpret_cast<std::uint32_t*>(data), n);
      default:
        return options.setOutput(reinterpret_cast<std::uint64_t*>(data), n);
    }
  }

  template <class Body>
  void guarded(const Call& call, const Body& body) const {
    const NoSigpipe no_sigpipe;
    try {
      body();
    } catch (const ::gloo::Exception& error) {
      for (int rank = 0; rank < membership_.size; ++rank)
        check_left(membership_, describe_step(call, 0), rank);
      membership_.end_late(str(describe_step(call, 0), ": ", error.what()));
    }
  }

  const Membership& membership_;
  std::shared_ptr<::gloo::Context> context_;
};

}  // namespace

std::unique_ptr<Engine> make_gloo_engine(const Membership& membership,
                                         std::shared_ptr<::gloo::Context> context) {
  return std::make_unique<GlooEngine>(membership, std::move(context));
}

}  // namespace ringlet::comm
