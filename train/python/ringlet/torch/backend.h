// The backend `ringlet` of torch.distributed: PyTorch's collectives of CPU tensors by a group of
// ringlet. A tensor that is not contiguous goes through a contiguous copy.
#pragma once

#include <torch/csrc/distributed/c10d/Backend.hpp>

#include <atomic>
#include <thread>

#include "ringlet/comm/group.h"
#include "store.h"
#include "work.h"

namespace ringlet::pytorch {

using c10d::AllgatherOptions;
using c10d::AllreduceCoalescedOptions;
using c10d::AllreduceOptions;
using c10d::AllToAllOptions;
using c10d::BarrierOptions;
using c10d::BroadcastOptions;
using c10d::GatherOptions;
using c10d::ReduceOptions;
using c10d::ReduceScatterOptions;
using c10d::ScatterOptions;
using WorkPointer = c10::intrusive_ptr<c10d::Work>;
/// Work of a call on this rank once its collectives have ended.
using After = std::vector<std::function<void()>>;

class Backend final : public c10d::Backend {
 public:
  Backend(const c10::intrusive_ptr<c10d::Store>& store, int rank, int size,
          c10::intrusive_ptr<Options> options);
  /// Waits for work in flight.
  ~Backend() override;

  const std::string getBackendName() const override { return "ringlet"; }
  c10::intrusive_ptr<Options> getBackendOptions() override { return options_; }
  uint64_t getSequenceNumberForGroup() override { return calls_; }
  bool supportsSplitting() const override { return true; }
  c10::intrusive_ptr<c10d::Backend> split(const c10::intrusive_ptr<c10d::Store>& store,
                                          const std::vector<int>& ranks,
                                          const c10::intrusive_ptr<Options>& options) override;
  c10::intrusive_ptr<c10d::Backend> merge(const c10::intrusive_ptr<c10d::Store>& store,
                                          const c10::intrusive_ptr<Options>& options,
                                          const int& rank, const int& size) override;
  bool supportsCoalescing() const override { return true; }
  void startCoalescing() override;
  WorkPointer endCoalescing() override;
  void abort() override;

  // ---- reductions (reductions.cpp)
  WorkPointer allreduce(Tensors& tensors, const AllreduceOptions& options) override;
  WorkPointer allreduce_sparse(Tensors& tensors, const AllreduceOptions& options) override;
  WorkPointer allreduce_coalesced(Tensors& tensors,
                                  const AllreduceCoalescedOptions& options) override;
  WorkPointer reduce(Tensors& tensors, const ReduceOptions& options) override;
  WorkPointer reduce_scatter(Tensors& outputs, std::vector<Tensors>& inputs,
                             const ReduceScatterOptions& options) override;
  WorkPointer _reduce_scatter_base(at::Tensor& output, at::Tensor& input,
                                   const ReduceScatterOptions& options) override;
  WorkPointer reduce_scatter_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                              const ReduceScatterOptions& options) override;

  // ---- copies (copies.cpp)
  WorkPointer broadcast(Tensors& tensors, const BroadcastOptions& options) override;
  WorkPointer allgather(std::vector<Tensors>& outputs, Tensors& inputs,
                        const AllgatherOptions& options) override;
  WorkPointer _allgather_base(at::Tensor& output, at::Tensor& input,
                              const AllgatherOptions& options) override;
  WorkPointer allgather_coalesced(std::vector<Tensors>& outputs, Tensors& inputs,
                                  const AllgatherOptions& options) override;
  WorkPointer allgather_into_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                              const AllgatherOptions& options) override;
  WorkPointer gather(std::vector<Tensors>& outputs, Tensors& inputs,
                     const GatherOptions& options) override;
  WorkPointer scatter(Tensors& outputs, std::vector<Tensors>& inputs,
                      const ScatterOptions& options) override;
  WorkPointer alltoall(Tensors& outputs, Tensors& inputs, const AllToAllOptions& options) override;
  /// Splits are compared first, for which the caller waits.
  WorkPointer alltoall_base(at::Tensor& output, at::Tensor& input,
                            std::vector<int64_t>& output_splits, std::vector<int64_t>& input_splits,
                            const AllToAllOptions& options) override;

  // ---- transfers and barriers (transfers.cpp)
  WorkPointer send(Tensors& tensors, int peer, int tag) override;
  WorkPointer recv(Tensors& tensors, int peer, int tag) override;
  WorkPointer recvAnysource(Tensors& tensors, int tag) override;
  WorkPointer barrier(const BarrierOptions& options) override;
  void monitoredBarrier(const BarrierOptions& options, bool wait_all_ranks) override;

 private:
  /// Makes the Work of a call; `start` starts its collectives and returns the last one.
  WorkPointer launch(const CallName& name, const Tensors& inputs, const Tensors& results,
                     const std::function<comm::Work(After&)>& start);
  /// `tensor`, or a contiguous tensor that is copied back to it.
  static at::Tensor written(const at::Tensor& tensor, After& after);

  comm::Work all_reduce(const at::Tensor& tensor, c10d::ReduceOp op, After& after) const;
  comm::Work reduce_scatter(const at::Tensor& output, const at::Tensor& input,
                            const comm::Pieces& pieces, c10d::ReduceOp op, After& after) const;
  comm::Work all_gather(const Tensors& outputs, const at::Tensor& input, After& after) const;
  /// The elements of input go to the ranks in order, `sent` to each; those of output come from
  /// them.
  comm::Work exchange(const at::Tensor& output, const std::vector<int64_t>& received,
                      const at::Tensor& input, const std::vector<int64_t>& sent,
                      After& after) const;

  int size() const { return size_; }
  std::string where() const;

  std::shared_ptr<Store> store_;
  c10::intrusive_ptr<Options> options_;
  comm::Group group_;
  std::atomic<uint64_t> calls_{0};
  uint64_t barriers_ = 0;
  bool coalesces_ = false;
  std::vector<WorkPointer> coalesced_;
  std::thread any_source_;  // the latest receive from any source; it ends after the earlier ones
  std::atomic<bool> ends_{false};
};

/// The elements of a contiguous tensor as a tensor of ringlet, which keeps it. A dtype that ringlet
/// lacks, as bytes.
Tensor as_ringlet(const at::Tensor& tensor);
/// Piece r of the result is as long as the r-th count; the pieces lie one after another.
comm::Pieces pieces_of(const std::vector<int64_t>& counts);
/// The elements of ringlet's tensor: for each of the tensor's, and in total.
int64_t unit_of(const at::Tensor& tensor);
int64_t count_of(const at::Tensor& tensor);
std::vector<int64_t> counts_of(const Tensors& tensors);
/// The tensor's dtype and elements per dimension must be the op's; one tensor per call.
const at::Tensor& only(const char* op, const Tensors& tensors);

}  // namespace ringlet::pytorch
