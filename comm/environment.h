// Finds the ranks that a launcher started.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "ringlet/comm/group.h"
#include "ringlet/core/base/error.h"

namespace ringlet::comm {

inline constexpr int kMostRanks = 1'000'000;  // of a world
inline constexpr int kMostRestarts = 1'000'000;
inline constexpr Timeout kLongestGrace = std::chrono::hours(1);

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
  /// RINGLET_RANKS_AT_START, of `ringlet run --min-ranks`: the world may become smaller. 0: it
  /// keeps its size.
  int ranks_at_start = 0;
  /// RINGLET_GRACE, in ms: the launcher waits so long for ranks that hang, before it kills them.
  Timeout grace{};
  /// RINGLET_JOINS: the launcher has started this rank anew, in place of one that was killed. It
  /// joins a job that runs.
  bool joins = false;
  /// `ringlet run` on one host keeps the store; otherwise rank 0 does.
  bool store_in_launcher = false;
  bool launched = false;

  /// Whether the world may change: `ringlet run --min-ranks`.
  bool elastic() const { return store_in_launcher && ranks_at_start > 0; }
  /// The rank's GPU among the `count` GPUs that this process sees. If a launcher shows each rank
  /// one GPU, it is that one. If more ranks than GPUs see the same GPUs, they share them.
  int gpu(int count) const { return local_rank % count; }

  /// One rank where no launcher is found. InputError names the variable and what was expected.
  static Environment read();
};

/// A counter: the port of the store of the world that follows, after the alarm or when a rank waits
/// to join; 0 while it is not known, less if none follows.
inline constexpr const char* kPortOfNextWorld = "port of the next world";
/// The ranks of that world in its store, "0 2 3", set when all have joined it.
inline constexpr const char* kRanksOfWorld = "ranks of this world";
/// The counter of ranks that receive the alarm.
inline constexpr const char* kRanksThatJoined = "ranks that joined";
/// Records in the store that `rank` receives the alarm; the launcher reads it.
void record_joined(Store& store, int rank);
/// Whether record_joined() was called for `rank`.
bool has_joined(Store& store, int rank);

/// The world that the environment describes, over a TCP store with the job token of RINGLET_TOKEN
/// or RINGLET_TOKEN_FILE; a world of one when the program was not launched. A launched program
/// calls it once. Afterwards Device::best() is the local rank's device, and threads_per_device()
/// its share of the host's processors, unless RINGLET_NUM_THREADS sets it. A rank that joins waits
/// for the others to call regroup_from_env(), at most for the group's timeout.
Group init_from_env(GroupOptions options = {});

/// After an error that ended the world, the one of the ranks that are left; or, when all ranks call
/// it because a rank waits, the one with that rank. In the same processes and order. `ringlet run
/// --min-ranks` forms it once the dead are known. Nothing under another launcher, or if the job
/// ends.
std::optional<Group> regroup_from_env(const Group& world);
/// Whether a rank waits to join: one request to the store of a world that may change, none of other
/// groups. Ranks may see it at different times, so that one must decide for all.
bool rank_waits(const Group& world);
/// Thrown by all ranks of a world between two steps: a rank waits to join.
class WorldGrows : public Error {
 public:
  WorldGrows() : Error("[group] a rank waits to join the world") {}
};

/// Runs `rank_main` in that world. An exception is rethrown and becomes the cause on the other
/// ranks, which would otherwise learn only that this rank has exited. With `regroups` it is called
/// again after the end of a peer, and after WorldGrows, with the world of regroup_from_env().
void run_from_env(const std::function<void(const Group&)>& rank_main, GroupOptions options = {},
                  bool regroups = false);

}  // namespace ringlet::comm
