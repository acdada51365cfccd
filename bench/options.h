// The command line of the throughput bench.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ringlet/comm/group.h"
#include "ringlet/core/base/dtype.h"
#include "ringlet/core/device/device.h"
#include "ringlet/train/cli/loss_kind.h"
#include "ringlet/train/parallel/model/sentence_pipeline.h"
#include "ringlet/train/step/step_graphs.h"

namespace ringlet::bench {

struct ThroughputOptions {
  std::vector<std::string> strategies{"all"};
  Device device;    // of the first rank; a CPU is shared by all, one process each
  int devices = 0;  // on entry 0: two on two or more processors, else one; one GPU; under a
                    // launcher the number of its ranks
  std::string model = "mpnet-base";
  std::int64_t batch = 32;  // of each device, or logical rank
  int logical_ranks = 0;    // of each row; 0: its devices
  int steps = 3;
  int rounds = 2;
  int warmup = 1;
  DType dtype = DType::f32;
  std::string precision = "highest";  // of f32 products
  std::string histogram;
  std::vector<std::string> data;
  std::string loss = "softmax";  // of drawn pairs
  cli::LossOptions loss_options;
  train::PipelineOptions pipeline;  // of the row pipe
  bool padded = false;
  std::string recipe = "ringlet";
  int threads = 0;  // per device; on entry 0: all processors divided among devices
  comm::TransportKind transport = comm::TransportKind::automatic;
  comm::Algorithm algorithm = comm::Algorithm::automatic;
  bool wide = false;
  bool trace = false;
  bool profile = false;
  std::string timeline;  // see train::TimelineFiles; of the last round; empty: none
  train::StepGraphMode step_graphs = train::StepGraphMode::automatic;
  int idle_steps = 10;
  std::string json;
  /// The ranks of a launcher, one process per device, if there are several. Else a group of one.
  comm::Group world;
  std::vector<std::string> gpus;  // of each rank: "gpu01 0000:3b:00.0"
  double share_here = 1;          // the share of these ranks on this host

  /// One forward per column.
  bool per_column() const { return recipe == "reference"; }
  /// Whether each op of a step is observed, so that no step is replayed.
  bool by_op() const { return profile || !timeline.empty(); }
  bool is_launched() const { return world.size() > 1; }
  /// Whether this process prints and writes.
  bool is_root() const { return world.rank() == 0; }
  Device device_of(int rank) const;
  /// 1 on a CPU, or if each rank has a separate GPU.
  int ranks_per_gpu() const;
  /// Uses the ranks of `launched`, if there are several; every rank calls it.
  void join(const comm::Group& launched);
};

/// Empty if help was requested and printed. Throws InputError.
std::optional<ThroughputOptions> parse_throughput(int argc, char** argv);

}  // namespace ringlet::bench
