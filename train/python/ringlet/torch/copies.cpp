// Collectives that copy: broadcast, gathers, scatter, all-to-all.
#include <ATen/ATen.h>

#include <algorithm>
#include <numeric>

#include "backend.h"
#include "ringlet/comm/rows.h"

namespace ringlet::pytorch {
namespace {

using c10d::OpType;

/// One buffer for the tensors of all ranks. `after` splits it into them.
at::Tensor joined(const Tensors& outputs, After& after) {
  int64_t numel = 0;
  for (const at::Tensor& output : outputs) numel += output.numel();
  const at::Tensor whole = at::empty({numel}, outputs[0].options().layout(at::kStrided));
  after.push_back([whole, outputs] {
    int64_t start = 0;
    for (const at::Tensor& output : outputs) {
      output.detach().copy_(whole.narrow(0, start, output.numel()).view(output.sizes()));
      start += output.numel();
    }
  });
  return whole;
}

at::Tensor flat(const Tensors& tensors) {
  Tensors flats;
  for (const at::Tensor& tensor : tensors) flats.push_back(tensor.detach().reshape({-1}));
  return at::cat(flats);
}

void check_per_rank(const char* op, const Tensors& tensors, int size) {
  TORCH_CHECK(tensors.size() == static_cast<std::size_t>(size), "[ringlet] ", op, " of ",
              tensors.size(), " tensors, expected one per rank, of which there are ", size);
  for (const at::Tensor& tensor : tensors)
    TORCH_CHECK(tensor.scalar_type() == tensors[0].scalar_type(), "[ringlet] ", op,
                " of tensors of ", tensors[0].scalar_type(), " and ", tensor.scalar_type());
}

}  // namespace

WorkPointer Backend::broadcast(Tensors& tensors, const BroadcastOptions& options) {
  return launch({OpType::BROADCAST, "ringlet:broadcast", options}, tensors, tensors,
                [&](After& after) {
                  const at::Tensor tensor = written(only("broadcast", tensors), after);
                  return group_.broadcast(as_ringlet(tensor), static_cast<int>(options.rootRank));
                });
}

comm::Work Backend::all_gather(const Tensors& outputs, const at::Tensor& input,
                               After& after) const {
  check_per_rank("all_gather", outputs, size_);
  return group_.all_gather(as_ringlet(joined(outputs, after)),
                           as_ringlet(input.detach().contiguous()), pieces_of(counts_of(outputs)));
}

WorkPointer Backend::allgather(std::vector<Tensors>& outputs, Tensors& inputs,
                               const AllgatherOptions& options) {
  only("all_gather", inputs);
  return launch({OpType::ALLGATHER, "ringlet:all_gather", options}, inputs, outputs[0],
                [&](After& after) { return all_gather(outputs[0], inputs[0], after); });
}

WorkPointer Backend::_allgather_base(at::Tensor& output, at::Tensor& input,
                                     const AllgatherOptions& options) {
  Tensors outputs{output}, inputs{input};
  return allgather_into_tensor_coalesced(outputs, inputs, options);
}

WorkPointer Backend::allgather_into_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                                     const AllgatherOptions& options) {
  return launch(
      {outputs.size() == 1 ? OpType::_ALLGATHER_BASE : OpType::ALLGATHER_INTO_TENSOR_COALESCED,
       "ringlet:all_gather", options},
      inputs, outputs, [&](After& after) {
        comm::Work last;
        for (std::size_t i = 0; i < outputs.size(); ++i) {
          TORCH_CHECK(outputs[i].numel() == inputs[i].numel() * size_ &&
                          outputs[i].scalar_type() == inputs[i].scalar_type(),
                      "[ringlet] all_gather of ", inputs[i].numel(), " ", inputs[i].scalar_type(),
                      " elements into ", outputs[i].numel(), " ", outputs[i].scalar_type(), ", of ",
                      size_, " ranks");
          const Tensor input = as_ringlet(inputs[i].detach().contiguous());
          const std::vector<int64_t> counts(static_cast<std::size_t>(size_), input.numel());
          last =
              group_.all_gather(as_ringlet(written(outputs[i], after)), input, pieces_of(counts));
        }
        return last;
      });
}

WorkPointer Backend::allgather_coalesced(std::vector<Tensors>& outputs, Tensors& inputs,
                                         const AllgatherOptions& options) {
  Tensors results;
  for (const Tensors& of_rank : outputs)
    results.insert(results.end(), of_rank.begin(), of_rank.end());
  return launch({OpType::ALLGATHER_COALESCED, "ringlet:all_gather", options}, inputs, results,
                [&](After& after) {
                  comm::Work last;
                  for (std::size_t i = 0; i < inputs.size(); ++i) {
                    Tensors of_input;
                    for (const Tensors& of_rank : outputs) of_input.push_back(of_rank.at(i));
                    last = all_gather(of_input, inputs[i], after);
                  }
                  return last;
                });
}

WorkPointer Backend::gather(std::vector<Tensors>& outputs, Tensors& inputs,
                            const GatherOptions& options) {
  const int root = static_cast<int>(options.rootRank);
  const Tensors results = rank_ == root ? outputs.at(0) : Tensors();
  return launch({OpType::GATHER, "ringlet:gather", options}, inputs, results, [&](After& after) {
    const at::Tensor input = only("gather", inputs).detach().contiguous();
    if (rank_ == root) check_per_rank("gather", results, size_);
    const std::vector<int64_t> counts =
        rank_ == root ? counts_of(results)
                      : std::vector<int64_t>(static_cast<std::size_t>(size_), count_of(input));
    return group_.gather(rank_ == root ? as_ringlet(joined(results, after)) : Tensor(),
                         as_ringlet(input), pieces_of(counts), root);
  });
}

WorkPointer Backend::scatter(Tensors& outputs, std::vector<Tensors>& inputs,
                             const ScatterOptions& options) {
  const int root = static_cast<int>(options.rootRank);
  const Tensors parts = rank_ == root ? inputs.at(0) : Tensors();
  return launch({OpType::SCATTER, "ringlet:scatter", options}, parts, outputs, [&](After& after) {
    const Tensor output = as_ringlet(written(only("scatter", outputs), after));
    if (rank_ == root) check_per_rank("scatter", parts, size_);
    const std::vector<int64_t> counts =
        rank_ == root ? counts_of(parts)
                      : std::vector<int64_t>(static_cast<std::size_t>(size_), output.numel());
    return group_.scatter(output, rank_ == root ? as_ringlet(flat(parts)) : Tensor(),
                          pieces_of(counts), root);
  });
}

// A rank's own sizes do not show whether those of the others are even. In ringlet's all-to-all a
// receiver gets parts of one size: shorter ones are padded to the longest.
comm::Work Backend::exchange(const at::Tensor& output, const std::vector<int64_t>& received,
                             const at::Tensor& input, const std::vector<int64_t>& sent,
                             After& after) const {
  const auto n = static_cast<std::size_t>(size_), me = static_cast<std::size_t>(rank_);
  std::vector<int64_t> mine = sent;
  mine.insert(mine.end(), received.begin(), received.end());
  const auto of_ranks = comm::all_gather_values(group_, mine);
  std::vector<int64_t> longest(n);
  for (std::size_t from = 0; from < n; ++from)
    for (std::size_t to = 0; to < n; ++to) {
      TORCH_CHECK(of_ranks[from][to] == of_ranks[to][n + from], "[ringlet] all_to_all: rank ", from,
                  " sends ", of_ranks[from][to], " elements to rank ", to, ", which expects ",
                  of_ranks[to][n + from]);
      longest[to] = std::max(longest[to], of_ranks[from][to]);
    }
  const int64_t unit = unit_of(input);
  const auto is_even = [&](const auto& row) { return row == of_ranks[0]; };
  if (std::ranges::all_of(of_ranks, is_even) && std::ranges::count(sent, sent[0]) == size_ &&
      received == sent) {
    const std::vector<int64_t> counts(n, sent[0] * unit);
    return group_.all_to_all(as_ringlet(output).view({size_, counts[0]}), as_ringlet(input),
                             pieces_of(counts));
  }
  const comm::Pieces places = pieces_of(longest);
  const at::Tensor padded =
      at::empty({std::accumulate(longest.begin(), longest.end(), int64_t{0})}, input.options());
  int64_t start = 0;
  for (std::size_t to = 0; to < n; start += sent[to++])
    padded.narrow(0, places[to].offset, sent[to]).copy_(input.narrow(0, start, sent[to]));
  const at::Tensor rows = at::empty({size_, longest[me]}, input.options());
  after.insert(after.begin(), [=] {
    int64_t end = 0;
    for (std::size_t from = 0; from < n; end += received[from++])
      output.narrow(0, end, received[from])
          .copy_(rows[static_cast<int64_t>(from)].narrow(0, 0, received[from]));
  });
  for (int64_t& count : longest) count *= unit;
  return group_.all_to_all(as_ringlet(rows).view({size_, longest[me]}), as_ringlet(padded),
                           pieces_of(longest));
}

WorkPointer Backend::alltoall(Tensors& outputs, Tensors& inputs, const AllToAllOptions& options) {
  check_per_rank("all_to_all", outputs, size_);
  check_per_rank("all_to_all", inputs, size_);
  return launch({OpType::ALLTOALL, "ringlet:all_to_all", options}, inputs, outputs,
                [&](After& after) {
                  std::vector<int64_t> received, sent;
                  for (const at::Tensor& output : outputs) received.push_back(output.numel());
                  for (const at::Tensor& input : inputs) sent.push_back(input.numel());
                  const at::Tensor whole = joined(outputs, after);
                  return exchange(whole, received, flat(inputs), sent, after);
                });
}

WorkPointer Backend::alltoall_base(at::Tensor& output, at::Tensor& input,
                                   std::vector<int64_t>& output_splits,
                                   std::vector<int64_t>& input_splits,
                                   const AllToAllOptions& options) {
  TORCH_CHECK(output.scalar_type() == input.scalar_type(), "[ringlet] all_to_all of ",
              input.scalar_type(), " into ", output.scalar_type());
  c10d::checkSplitSizes(input_splits, input, size_);
  c10d::checkSplitSizes(output_splits, output, size_);
  return launch(
      {OpType::ALLTOALL_BASE, "ringlet:all_to_all", options}, {input}, {output}, [&](After& after) {
        const at::Tensor to = written(output, after), from = input.detach().contiguous();
        const auto elements = [&](const std::vector<int64_t>& splits, const at::Tensor& tensor) {
          const int64_t rows = tensor.dim() > 0 ? tensor.size(0) : 1;
          std::vector<int64_t> counts = splits;
          if (counts.empty()) counts.assign(static_cast<std::size_t>(size_), rows / size_);
          for (int64_t& count : counts) count *= rows > 0 ? tensor.numel() / rows : 0;
          return counts;
        };
        return exchange(to.view({-1}), elements(output_splits, to), from.view({-1}),
                        elements(input_splits, from), after);
      });
}

}  // namespace ringlet::pytorch
