// Which processors each rank of a host gets, and each device of a rank.
#pragma once

#include <vector>

#include "ringlet/core/device.h"

namespace ringlet::comm {

/// A processor, and the core that it may share with others.
struct Processor {
  int socket;
  int core;
  int number;
};

/// Those that this process may use.
std::vector<Processor> processors();

/// The processors that this process may use in n parts of neighbours (the two threads of a core
/// stay together); n empty parts where there are fewer than n.
std::vector<std::vector<int>> share_cores(int n);

/// `threads` of the processors for each of n devices: as many cores as there are, the threads of
/// one core with one device. Empty where there are fewer than n * threads.
std::vector<std::vector<int>> processors_of_devices(std::vector<Processor> processors, int n,
                                                    int threads);

/// Says to ranks that their processors are theirs alone.
inline constexpr const char* kPinned = "RINGLET_PINNED";
/// Shares the processors of a rank that was started so out to its devices, and does nothing
/// elsewhere.
void pin_devices(const std::vector<Device>& devices);

/// How many processors this process may use.
int usable_processors();

}  // namespace ringlet::comm
