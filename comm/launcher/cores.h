// Assigns processors to the ranks of a host, and to the devices of a rank.
#pragma once

#include <compare>
#include <vector>

#include "ringlet/core/device/device.h"

namespace ringlet::comm {

/// A processor, and the core that it may share with others.
struct Processor {
  int socket;
  int core;
  int number;
  auto operator<=>(const Processor&) const = default;
};

/// The processors that this process may use, by socket and core.
std::vector<Processor> processors();

/// The processors that this process may use, by socket and core, cut into n near-equal parts; n
/// empty parts if there are fewer than n.
std::vector<std::vector<int>> share_cores(int n);

/// `threads` processors for each of n devices, on as many cores as possible and dealt out by socket
/// and core. Empty if there are fewer than n * threads.
std::vector<std::vector<int>> processors_of_devices(std::vector<Processor> processors, int n,
                                                    int threads);

/// The variable that is set for a rank with dedicated processors.
inline constexpr const char* kPinned = "RINGLET_PINNED";
/// Divides the processors of such a rank among its devices; does nothing for other ranks.
void pin_devices(const std::vector<Device>& devices);

}  // namespace ringlet::comm
