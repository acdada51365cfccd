// An emulated GPU: the CUDA runtime and cuBLASLt on top of a PTX interpreter. Programs linked with
// it run the unchanged CUDA kernels on a CPU. Its times are no measurements. In other programs
// these functions are null.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace ringlet::emulated {

/// Printed to stderr when a program first uses the GPU.
inline constexpr const char* kNotice =
    "emulated GPU: kernels run on the CPU; times are no measurements";

struct Settings {
  /// Chooses the order of warps, blocks and streams. 0 is program order; with several GPUs long
  /// launches then go on beside others, which they may wait for.
  std::uint64_t seed = 1;
  int devices = 1;
  bool peer_access = true;
};

/// Takes effect before the first runtime call. RINGLET_EMULATED_SEED, _DEVICES and _PEERS set the
/// defaults.
[[gnu::weak]] void configure(const Settings& settings);
[[gnu::weak]] const Settings& settings();

/// `move` holds moves and parameter loads, most of which are operands in a GPU's own code.
enum class InstructionClass : std::uint8_t {
  integer,
  f32,
  f64,
  special,
  conversion,
  shuffle,
  mma,
  global,
  shared,
  local,
  barrier,
  control,
  move
};
inline constexpr std::size_t kInstructionClasses = 13;
inline constexpr std::array<const char*, kInstructionClasses> kInstructionClassNames{
    "integer", "f32",    "f64",   "special", "conversion", "shuffle", "mma",
    "global",  "shared", "local", "barrier", "control",    "move"};
inline constexpr std::uint64_t kSectorBytes = 32;

/// The counts of one launch or of one library product: exact, and the same for every seed.
struct LaunchCounters {
  std::string kernel;  // mangled; "product" for one of cuBLASLt
  std::uint64_t blocks = 0;
  std::uint32_t threads = 0;                                        // of a block
  std::array<std::uint64_t, kInstructionClasses> warps{}, lanes{};  // PTX instructions
  std::uint64_t bytes = 0;                          // of global memory, requested by all lanes
  std::uint64_t sectors = 0;                        // of 32 bytes, moved for these requests
  std::uint64_t least_sectors = 0;                  // with requests of a warp that are contiguous
  std::uint64_t touched_sectors = 0;                // distinct ones read, and distinct ones written
  std::uint64_t bank_passes = 0, least_passes = 0;  // of shared memory
  int registers = 0;                                // of a thread, from ptxas; 0: not known
  int resident_warps = 0;                           // of a multiprocessor, of at most 64
  std::uint64_t flops = 0;                          // of a product
  bool tensor_cores = false;                        // in bf16 or TF32

  std::uint64_t warp_instructions() const {
    std::uint64_t sum = 0;
    for (const std::uint64_t each : warps) sum += each;
    return sum;
  }
  std::uint64_t lane_instructions() const {
    std::uint64_t sum = 0;
    for (const std::uint64_t each : lanes) sum += each;
    return sum;
  }
};

/// Launches that end from now on are counted, or no longer.
[[gnu::weak]] void count_launches(bool wanted);
/// The counted launches in the order in which they ended, since the previous call. Synchronise
/// before: launches run late.
[[gnu::weak]] std::vector<LaunchCounters> take_counters();

/// The number of faults detected so far.
[[gnu::weak]] int fault_count();

}  // namespace ringlet::emulated
