// Reductions. ringlet adds, averages and takes maxima; other ops and dtypes combine the gathered
// tensors of all ranks here, in rank order.
#include <ATen/ATen.h>

#include "backend.h"
#include "ringlet/comm/rows.h"

namespace ringlet::pytorch {
namespace {

using c10d::OpType;
using RedOp = c10d::ReduceOp::RedOpType;

const char* name_of(RedOp op) {
  constexpr const char* kNames[] = {"SUM",  "AVG", "PRODUCT", "MIN",        "MAX",
                                    "BAND", "BOR", "BXOR",    "PREMUL_SUM", "UNUSED"};
  return kNames[op];
}

/// Complex numbers are pairs of real ones.
at::Tensor real(const at::Tensor& tensor, RedOp op) {
  if (!tensor.is_complex()) return tensor;
  TORCH_CHECK(op == RedOp::SUM || op == RedOp::AVG, "[ringlet] complex tensors have no ",
              name_of(op));
  return at::view_as_real(tensor);
}

/// The op of ringlet, if it has this one for the dtype.
std::optional<ReduceOp> native(const at::Tensor& tensor, RedOp op) {
  TORCH_CHECK(op <= RedOp::BXOR, "[ringlet] reductions by ", name_of(op), " are not supported");
  const auto type = tensor.scalar_type();
  const bool floating = at::isFloatingType(type) && c10::elementSize(type) >= 2;
  TORCH_CHECK(op != RedOp::AVG || floating, "[ringlet] ", type,
              " tensors have no average: use SUM");
  if (!floating && type != at::kInt && type != at::kLong && type != at::kByte) return std::nullopt;
  if (op == RedOp::SUM) return ReduceOp::sum;
  if (op == RedOp::AVG) return ReduceOp::mean;
  if (op == RedOp::MAX) return ReduceOp::max;
  return std::nullopt;
}

/// to = row 0 op row 1 op …
void combine_rows(const at::Tensor& to, const at::Tensor& rows, RedOp op) {
  at::Tensor sum = rows[0].clone();
  for (int64_t i = 1; i < rows.size(0); ++i) {
    const at::Tensor next = rows[i];
    if (op == RedOp::SUM) sum.add_(next);
    if (op == RedOp::PRODUCT) sum.mul_(next);
    if (op == RedOp::MIN) sum = at::minimum(sum, next);
    if (op == RedOp::MAX) sum = at::maximum(sum, next);
    if (op == RedOp::BAND) sum.bitwise_and_(next);
    if (op == RedOp::BOR) sum.bitwise_or_(next);
    if (op == RedOp::BXOR) sum.bitwise_xor_(next);
  }
  to.copy_(sum.view_as(to));
}

}  // namespace

comm::Work Backend::all_reduce(const at::Tensor& tensor, c10d::ReduceOp op, After& after) const {
  const at::Tensor flat = real(tensor, op);
  if (const auto known = native(flat, op)) return group_.all_reduce(as_ringlet(flat), *known);
  const at::Tensor rows = at::empty({size_, flat.numel()}, flat.options());
  after.insert(after.begin(), [=] { combine_rows(flat, rows, op); });
  const std::vector<int64_t> counts(static_cast<std::size_t>(size_), count_of(flat));
  return group_.all_gather(as_ringlet(rows), as_ringlet(flat), pieces_of(counts));
}

comm::Work Backend::reduce_scatter(const at::Tensor& output, const at::Tensor& input,
                                   const comm::Pieces& pieces, c10d::ReduceOp op,
                                   After& after) const {
  if (const auto known = native(input, op))
    return group_.reduce_scatter(as_ringlet(output), as_ringlet(input), pieces, *known);
  const at::Tensor rows = at::empty({size_, output.numel()}, output.options());
  after.insert(after.begin(), [=] { combine_rows(output, rows, op); });
  return group_.all_to_all(as_ringlet(rows).view({size_, -1}), as_ringlet(input), pieces);
}

WorkPointer Backend::allreduce(Tensors& tensors, const AllreduceOptions& options) {
  if (only("all_reduce", tensors).is_sparse()) return allreduce_sparse(tensors, options);
  return launch({OpType::ALLREDUCE, "ringlet:all_reduce", options}, tensors, tensors,
                [&](After& after) {
                  return all_reduce(written(tensors[0], after), options.reduceOp, after);
                });
}

WorkPointer Backend::allreduce_coalesced(Tensors& tensors,
                                         const AllreduceCoalescedOptions& options) {
  return launch({OpType::ALLREDUCE_COALESCED, "ringlet:all_reduce", options}, tensors, tensors,
                [&](After& after) {
                  std::vector<Tensor> together;
                  comm::Work last;
                  ReduceOp op{};
                  for (const at::Tensor& tensor : tensors) {
                    const at::Tensor flat = real(written(tensor, after), options.reduceOp);
                    const auto known = native(flat, options.reduceOp);
                    if (known && tensor.scalar_type() == tensors[0].scalar_type())
                      together.push_back(as_ringlet(flat)), op = *known;
                    else
                      last = all_reduce(flat, options.reduceOp, after);
                  }
                  return together.empty() ? last : group_.all_reduce(std::move(together), op);
                });
}

WorkPointer Backend::reduce(Tensors& tensors, const ReduceOptions& options) {
  const bool is_root = rank_ == options.rootRank;
  return launch({OpType::REDUCE, "ringlet:reduce", options}, tensors, tensors, [&](After& after) {
    const at::Tensor& tensor = only("reduce", tensors);
    return all_reduce(
        is_root ? written(tensor, after) : tensor.detach().clone(at::MemoryFormat::Contiguous),
        options.reduceOp, after);
  });
}

WorkPointer Backend::reduce_scatter(Tensors& outputs, std::vector<Tensors>& inputs,
                                    const ReduceScatterOptions& options) {
  TORCH_CHECK(inputs.size() == 1 && inputs[0].size() == static_cast<std::size_t>(size_),
              "[ringlet] reduce_scatter takes a tensor per rank");
  return launch({OpType::REDUCE_SCATTER, "ringlet:reduce_scatter", options}, inputs[0], outputs,
                [&](After& after) {
                  const auto op = options.reduceOp;
                  Tensors flats;
                  for (const at::Tensor& input : inputs[0])
                    flats.push_back(real(input.detach(), op).reshape({-1}));
                  const at::Tensor output = written(only("reduce_scatter", outputs), after);
                  return reduce_scatter(real(output, op), at::cat(flats),
                                        pieces_of(counts_of(flats)), op, after);
                });
}

WorkPointer Backend::_reduce_scatter_base(at::Tensor& output, at::Tensor& input,
                                          const ReduceScatterOptions& options) {
  Tensors outputs{output}, inputs{input};
  return reduce_scatter_tensor_coalesced(outputs, inputs, options);
}

WorkPointer Backend::reduce_scatter_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                                     const ReduceScatterOptions& options) {
  return launch(
      {outputs.size() == 1 ? OpType::_REDUCE_SCATTER_BASE : OpType::REDUCE_SCATTER_TENSOR_COALESCED,
       "ringlet:reduce_scatter", options},
      inputs, outputs, [&](After& after) {
        comm::Work last;
        for (std::size_t i = 0; i < outputs.size(); ++i) {
          TORCH_CHECK(inputs[i].numel() == outputs[i].numel() * size_ &&
                          inputs[i].scalar_type() == outputs[i].scalar_type(),
                      "[ringlet] reduce_scatter of ", inputs[i].numel(), " ",
                      inputs[i].scalar_type(), " elements into ", outputs[i].numel(), " ",
                      outputs[i].scalar_type(), ", of ", size_, " ranks");
          const auto op = options.reduceOp;
          const at::Tensor output = real(written(outputs[i], after), op);
          const std::vector<int64_t> counts(static_cast<std::size_t>(size_), count_of(output));
          last = reduce_scatter(output, real(inputs[i].detach().contiguous(), op),
                                pieces_of(counts), op, after);
        }
        return last;
      });
}

// The indices and values of all ranks; coalesce() sums them.
WorkPointer Backend::allreduce_sparse(Tensors& tensors, const AllreduceOptions& options) {
  const at::Tensor sparse = only("all_reduce", tensors);
  TORCH_CHECK(options.reduceOp == RedOp::SUM, "[ringlet] sparse tensors are only summed");
  return launch(
      {OpType::_ALLREDUCE_SPARSE, "ringlet:all_reduce", options}, {}, tensors, [&](After& after) {
        const at::Tensor mine = sparse.detach().coalesce();
        const at::Tensor indices = mine.indices().t().contiguous(),
                         values = mine.values().contiguous();
        Tensors all_indices, all_values;
        for (const auto count : comm::all_gather_count(group_, mine._nnz())) {
          auto sizes = values.sizes().vec();
          sizes[0] = count;
          all_values.push_back(at::empty(sizes, values.options()));
          all_indices.push_back(at::empty({count, indices.size(1)}, indices.options()));
        }
        all_gather(all_indices, indices, after);
        const comm::Work last = all_gather(all_values, values, after);
        after.push_back([=, sizes = sparse.sizes().vec()] {
          sparse.copy_(at::sparse_coo_tensor(at::cat(all_indices).t(), at::cat(all_values), sizes)
                           .coalesce());
        });
        return last;
      });
}

}  // namespace ringlet::pytorch
