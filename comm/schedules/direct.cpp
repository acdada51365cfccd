#include "ringlet/comm/schedule.h"

namespace ringlet::comm {
namespace {

// The peers, the next rank first, so that not all ranks send to the same one at the same time.
std::vector<int> others(int rank, int size) {
  std::vector<int> peers;
  for (int distance = 1; distance < size; ++distance) peers.push_back((rank + distance) % size);
  return peers;
}

}  // namespace

Schedule direct_reduce_scatter(int rank, int size) {
  Step step{.then = Then::add_all};
  for (const int peer : others(rank, size)) {
    step.sends.push_back({peer, /*piece=*/peer});
    step.receives.push_back({peer, /*piece=*/rank});
  }
  return {step};
}

Schedule direct_all_gather(int rank, int size) {
  Step step{.then = Then::copy};
  for (const int peer : others(rank, size)) {
    step.sends.push_back({peer, /*piece=*/rank});
    step.receives.push_back({peer, /*piece=*/peer});
  }
  return {step};
}

Schedule direct_all_reduce(int rank, int size) {
  return {direct_reduce_scatter(rank, size)[0], direct_all_gather(rank, size)[0]};
}

Schedule direct_broadcast(int rank, int size, int root) {
  Step step{.then = Then::copy};
  if (rank != root) {
    step.receives.push_back({root, /*piece=*/0});
  } else {
    for (const int peer : others(rank, size)) step.sends.push_back({peer, /*piece=*/0});
  }
  return {step};
}

}  // namespace ringlet::comm
