// A kernel launch. The seed chooses the order of blocks and warps. It runs in slices, so that other
// launches can run concurrently.
#pragma once

#include <cuda_runtime_api.h>

#include <memory>
#include <random>
#include <unordered_map>

#include "memory.h"
#include "warp.h"

namespace ringlet::emulated {

struct Launch;

/// Shared memory: earlier accesses of other blocks do not conflict.
class OrderOfBlock final : public Order {
 public:
  bool decide(const Stamp&, const Actor&) const override { return true; }
};

struct Block {
  Launch* launch = nullptr;
  std::uint32_t x = 0, y = 0, z = 0, index = 0;
  std::vector<Warp> warps;
  std::vector<std::uint32_t> registers;
  std::uint32_t barriers = 0;
  std::vector<std::byte> shared;
  std::vector<Granule> shared_shadow;
  std::vector<Granule> shared_parts;          // empty without accesses narrower than four bytes
  std::vector<std::uint8_t> shared_written;   // a bit a byte
  BlockClock seen;                            // by all threads
  std::map<std::uint32_t, BlockClock> fresh;  // by one, since the last barrier
  bool all = true, any = false;               // of a barrier that reduces

  bool done() const;
};

/// The effect of a release store.
struct Published {
  BlockClock clock;
  Scope scope = Scope::weak;
  OperationId operation = 0;
  std::uint32_t block = 0;
};
/// By address.
using Released = std::unordered_map<Address, Published>;

/// An operation and its clock.
struct LaunchOrder {
  OperationId operation = 0;
  StreamClock clock;
};

struct LaunchShape {
  dim3 grid, block;
  std::size_t dynamic_bytes = 0;
  bool cooperative = false;
  int device = 0;
};

struct Launch final : Order {
  Launch(Kernel& kernel, const LaunchShape& shape, std::vector<std::byte> parameters,
         LaunchOrder order, std::uint64_t seed);
  /// Adds the counts to the kernel's.
  ~Launch();
  Launch(const Launch&) = delete;
  Launch& operator=(const Launch&) = delete;

  /// Runs about `instructions` warp instructions; returns true on completion. Throws Fault.
  bool run(std::int64_t instructions);

  /// Orders accesses of other blocks and other operations.
  bool decide(const Stamp& earlier, const Actor& now) const override;

  Kernel& kernel;
  LaunchShape shape;
  std::vector<std::byte> parameters;
  LaunchOrder order;
  std::mt19937_64 random;
  std::uint64_t executed = 0;  // instructions of warps
  std::vector<Count> counts;   // of each instruction
  bool has_traffic = false;    // whether they include memory traffic
  // The allocation of the last access, as a cache.
  Region* region = nullptr;
  Region::Range range{};

 private:
  void start_blocks();
  void start(Block& block, std::uint32_t index);
  bool run_warps(Block& block, std::int64_t& instructions);
  void release_barrier(Block& block);
  bool knows(const BlockClock& seen, const Stamp& earlier) const;
  void end();

  std::uint32_t threads_, blocks_, next_ = 0;
  std::uint64_t step_ = 1, first_ = 0;  // the order of the blocks: first + i * step
  std::vector<std::unique_ptr<Block>> resident_;
  std::size_t turn_ = 0;
  BlockClock learned_;  // by the blocks that have ended
};

/// The reason why a warp stopped.
enum class Stop { barrier, done, slice };
/// Runs the warp until a barrier, its end, or the end of `instructions`.
Stop run_warp(Warp& warp, std::int64_t& instructions);

Actor actor_of(const Warp& warp, int lane);
std::uint32_t thread_of(const Warp& warp, int lane);

/// The emulated time before the running launch.
std::uint64_t emulated_nanoseconds();

Released& released();

/// Whether a launch that has acquired what `earlier` released ended before a position with this
/// clock. One block of many readers counts for all.
bool is_learned(const Stamp& earlier, const StreamClock& clock);
/// The time before the launches that signalled this one, which has ended.
StreamClock acquired_by(OperationId launch);

}  // namespace ringlet::emulated
