// An emulated GPU: the CUDA runtime and cuBLASLt on top of a PTX interpreter. Programs linked with
// it run the unchanged CUDA kernels on a CPU. Its times are no measurements. In other programs
// these functions are null.
#pragma once

#include <cstdint>
#include <string>

namespace ringlet::emulated {

struct Settings {
  /// Chooses the order of warps, blocks and streams; 0 is program order.
  std::uint64_t seed = 1;
  int devices = 1;
  bool peer_access = true;
};

/// Takes effect before the first runtime call. RINGLET_EMULATED_SEED, _DEVICES and _PEERS set the
/// defaults.
[[gnu::weak]] void configure(const Settings& settings);
[[gnu::weak]] const Settings& settings();

/// The number of faults detected so far.
[[gnu::weak]] int fault_count();

}  // namespace ringlet::emulated
