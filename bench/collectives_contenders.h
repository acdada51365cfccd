// Those who run the same collective on the same sizes: ours, gloo's, Open MPI's, and bare copies.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "collectives_options.h"
#include "ringlet/comm/group.h"

namespace ringlet::bench {

struct Measurement {
  std::vector<double> seconds;  // of each repetition, as rank 0 saw it
  std::int64_t wrong = 0;       // values, over all ranks
};

class Contender {
 public:
  virtual ~Contender() = default;
  virtual std::string algorithm() const = 0;
  virtual std::string transport() const = 0;
  /// False where it has no such collective.
  virtual bool can(const std::string& op) const = 0;
  /// All ranks call it. `check` counts wrong values first, which takes a while.
  virtual Measurement run(const std::string& op, std::int64_t bytes, bool check) = 0;
};

/// Those that the options name, of this rank of the world.
std::vector<std::unique_ptr<Contender>> make_contenders(const CollectivesOptions& options,
                                                        const comm::Group& world);

/// Empty where this build has no Open MPI, or there is none to run.
std::unique_ptr<Contender> make_mpi_contender(const CollectivesOptions& options,
                                              const comm::Group& world);

/// One rank's buffers and one collective on them.
class Exercise {
 public:
  Exercise(const CollectivesOptions& options, const comm::Group& world);
  /// Of `bytes` in all (all_gather and reduce_scatter: of all ranks together); `even`: of as many
  /// less as it takes for ranks to have pieces alike, as libraries want them.
  void prepare(std::int64_t bytes, bool even = false);
  Device device() const { return memory_.device(); }
  void run(const std::string& op, const comm::Group& group);
  /// Wrong values of one run on values that name their source.
  std::int64_t wrong(const std::string& op, const comm::Group& group);
  /// What must at least be read and written for this op, as copies of half as many bytes: by each
  /// rank what is its own, on a GPU that they share by rank 0 what is all ranks'.
  void copy(const std::string& op);

 private:
  DType dtype_;
  int rank_;
  int size_;
  bool share_a_gpu_;
  Tensor memory_;  // of the largest size
  Tensor buffer_;
  Tensor part_;
  Tensor other_;  // where copies go
  comm::Pieces pieces_;
};

}  // namespace ringlet::bench
