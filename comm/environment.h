// Finds the ranks that a launcher started.
#pragma once

#include <functional>
#include <string>

#include "ringlet/comm/group.h"

namespace ringlet::comm {

/// The values that a launcher sets in environment variables. They are torchrun's (ringlet run,
/// torchrun, accelerate), else those of Open MPI, of MPICH and Intel (PMI), or of Slurm.
struct Environment {
  int rank = 0;
  int local_rank = 0;
  int world_size = 1;
  int local_world_size = 1;
  /// MASTER_ADDR; loopback where all ranks are on one host; Slurm's first host.
  std::string master_addr = "127.0.0.1";
  /// RINGLET_PORT, else MASTER_PORT + 1, else made from the name of the MPI or Slurm job.
  int port = 0;
  int restart_count = 0;  // TORCHELASTIC_RESTART_COUNT
  /// `ringlet run` on one host keeps the store; otherwise rank 0 does.
  bool store_in_launcher = false;
  bool launched = false;

  /// The rank's GPU among the `count` GPUs that this process sees. If a launcher shows each rank
  /// one GPU, it is that one. If more ranks than GPUs see the same GPUs, they share them.
  int gpu(int count) const { return local_rank % count; }

  /// One rank where no launcher is found. InputError names the variable and what was expected.
  static Environment read();
};

/// The counter of ranks that receive the alarm.
inline constexpr const char* kRanksThatJoined = "ranks that joined";
/// Records in the store that `rank` receives the alarm; the launcher reads it.
void record_joined(Store& store, int rank);
/// Whether record_joined() was called for `rank`.
bool has_joined(Store& store, int rank);

/// The world that the environment describes, over a TCP store with the job token of RINGLET_TOKEN
/// or RINGLET_TOKEN_FILE; a world of one when the program was not launched. A launched program
/// calls it once. Afterwards Device::best() is the local rank's device, and threads_per_device()
/// its share of the host's processors, unless RINGLET_NUM_THREADS sets it.
Group init_from_env(GroupOptions options = {});

/// Runs `rank_main` in that world. An exception is rethrown and becomes the cause on the other
/// ranks, which would otherwise learn only that this rank has exited.
void run_from_env(const std::function<void(const Group&)>& rank_main, GroupOptions options = {});

}  // namespace ringlet::comm
