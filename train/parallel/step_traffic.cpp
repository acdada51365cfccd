#include "ringlet/train/parallel/step_traffic.h"

#include "ringlet/comm/schedule.h"
#include "ringlet/core/ops/optimizer.h"
#include "ringlet/train/parallel/unit_layout.h"

namespace ringlet::train {
namespace {

/// Adds up the collectives of one rank.
class Sender {
 public:
  Sender(int rank, int ranks, comm::Algorithm algorithm)
      : rank_(rank), ranks_(ranks), algorithm_(algorithm) {
    RINGLET_CHECK(algorithm != comm::Algorithm::native,
                  "[traffic] a native engine has no schedule");
  }
  /// Bytes sent for pieces in units of `size` bytes.
  std::size_t operator()(comm::Op op, const comm::Pieces& pieces, std::size_t size) const {
    const comm::Schedule schedule = comm::make_schedule(op, algorithm_, rank_, ranks_);
    return static_cast<std::size_t>(comm::elements_sent(schedule, pieces)) * size;
  }
  std::size_t all_reduce(std::int64_t numel, std::size_t size) const {
    return (*this)(comm::Op::all_reduce, comm::even_pieces(numel, ranks_, comm::kPieceAlign), size);
  }

 private:
  int rank_, ranks_;
  comm::Algorithm algorithm_;
};

}  // namespace

StepTraffic step_traffic(Strategy strategy, nn::Module& module, int rank, int ranks,
                         comm::Algorithm algorithm) {
  const Sender sent(rank, ranks, algorithm);
  const auto arena = nn::plan(module);
  StepTraffic traffic;
  if (!traits(strategy).ranks || arena->numel() == 0) return traffic;
  const std::size_t size = itemsize(arena->units().front().parameters.front().parameter.dtype());
  if (!traits(strategy).state) {
    traffic.gradients = sent.all_reduce(arena->numel(), size);
    return traffic;
  }
  for (const nn::Unit& unit : arena->units()) {
    const comm::Pieces pieces = comm::even_pieces(unit.end - unit.begin, ranks, kNormBlock);
    traffic.gradients += sent(comm::Op::reduce_scatter, pieces, size);
    if (traits(strategy).parameters) {
      const UnitLayout layout(unit, pieces, {});
      // A layer is gathered for its forward and for its backward, the rest once for both.
      traffic.parameters += (unit.layer ? 2 : 1) * sent(comm::Op::all_gather, layout.pieces(), 1);
    } else {
      traffic.parameters += sent(comm::Op::all_gather, pieces, size);
    }
  }
  const std::int64_t blocks = (arena->numel() + kNormBlock - 1) / kNormBlock;
  traffic.norm = sent.all_reduce(blocks, sizeof(double));
  return traffic;
}

}  // namespace ringlet::train
