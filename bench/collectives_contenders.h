// Implementations of one collective for the same sizes: ours, gloo's, Open MPI's, and bare copies.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "collectives_options.h"
#include "ringlet/comm/group.h"

namespace ringlet::bench {

struct Measurement {
  std::vector<double> seconds;  // of each repetition, measured by rank 0
  std::int64_t wrong = 0;       // values, over all ranks
};

class Contender {
 public:
  virtual ~Contender() = default;
  virtual std::string algorithm() const = 0;
  virtual std::string transport() const = 0;
  /// False if it does not implement this collective.
  virtual bool can(const std::string& op) const = 0;
  /// All ranks call it. `check` first counts wrong values, which is slow.
  virtual Measurement run(const std::string& op, std::int64_t bytes, bool check) = 0;
};

/// The contenders that the options name, for this rank of the world.
std::vector<std::unique_ptr<Contender>> make_contenders(const CollectivesOptions& options,
                                                        const comm::Group& world);

/// Empty if this build has no Open MPI, or none is installed.
std::unique_ptr<Contender> make_mpi_contender(const CollectivesOptions& options,
                                              const comm::Group& world);

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

}  // namespace ringlet::bench
