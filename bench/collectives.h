// The collectives bench, after nccl-tests: the implementations of one collective for the same
// sizes: ours, gloo's, Open MPI's, and bare copies.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "ringlet/comm/group.h"

namespace ringlet::bench {

struct CollectivesOptions {
  int ranks = 2;
  Device device;  // GPU: ranks are threads, on the GPUs from this one on, round-robin
  std::vector<std::string> ops = {"all_reduce"};
  std::int64_t begin = 4 << 10;  // bytes
  std::int64_t end = 256 << 20;
  int factor = 4;
  int rounds = 3;
  double seconds = 0.2;  // of measuring, per size and contender in each round
  DType dtype = DType::f32;
  comm::TransportKind transport = comm::TransportKind::automatic;
  std::string algorithm = "all";
  bool mpi = true;
  std::string json;

  std::vector<std::int64_t> sizes() const;
  Device device_of(int rank) const;
  /// Whether all ranks share one GPU.
  bool share_a_gpu() const;
  /// Why in-kernel algorithms cannot be measured; empty if they can.
  std::string why_not_in_kernel() const;
  /// The same for collectives over NCCL.
  std::string why_not_nccl() const;
  /// The algorithms that "--algorithm all" skips, with the reason.
  std::vector<std::pair<std::string, std::string>> left_out() const;
};

/// One rank's buffers and one collective on them.
class Exercise {
 public:
  Exercise(const CollectivesOptions& options, const comm::Group& world);
  /// Buffers of `bytes` in total (all_gather and reduce_scatter: over all ranks). `even`: reduced
  /// to a multiple of the ranks, since libraries need equal pieces.
  void prepare(std::int64_t bytes, bool even = false);
  Device device() const { return memory_.device(); }
  void run(const std::string& op, const comm::Group& group);
  /// Wrong values of one run on values that identify their rank.
  std::int64_t wrong(const std::string& op, const comm::Group& group);
  /// The least reads and writes of this op, as copies of half as many bytes. Each rank copies its
  /// own part; on a shared GPU rank 0 copies all parts.
  void copy(const std::string& op);

 private:
  DType dtype_;
  int rank_;
  int size_;
  bool share_a_gpu_;
  Tensor memory_;  // of the largest size
  Tensor buffer_;
  Tensor part_;
  Tensor other_;  // target of copies
  comm::Pieces pieces_;
};

struct Timed {
  std::vector<double> seconds;  // of each repetition, measured by rank 0
  std::int64_t wrong = 0;       // values, over all ranks
};

struct Contender {
  std::string algorithm, transport;
  /// False if it does not implement this collective.
  std::function<bool(const std::string& op)> can;
  /// All ranks call it. `check` first counts wrong values, which is slow.
  std::function<Timed(const std::string& op, std::int64_t bytes, bool check)> run;
};
/// The contenders that the options name, for this rank of the world; both outlive them.
std::vector<Contender> make_contenders(const CollectivesOptions& options, const comm::Group& world);

}  // namespace ringlet::bench
