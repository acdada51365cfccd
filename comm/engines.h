// The transports and engines of a group, and the choice among them.
#pragma once

#include <atomic>
#include <memory>
#include <span>

#include "ringlet/comm/engine.h"
#include "ringlet/comm/membership.h"

namespace ringlet::comm {

/// Collectives of ranks on GPUs that read each other's memory, as one launch on each
/// (core/device/device_objects.h). The ranks send each other their buffers, as to peers that only
/// read. The first rank of each GPU enqueues the launch that writes those of its ranks. The group's
/// timeout limits a rank's wait for another within the launch. A captured launch takes the buffers
/// that the ranks had in the latest collective of this rank's memory.
std::unique_ptr<Engine> make_in_kernel_engine(Transport& transport, const Membership& member);
/// Whether ranks on these devices have one each, with links between all of them, that runs ranks.
bool can_launch_once(std::span<const Device> of_ranks);

/// The algorithm by steps that has the bits of an in-kernel one.
constexpr Algorithm steps_of(Algorithm in_kernel) {
  return in_kernel == Algorithm::in_kernel_ring ? Algorithm::ring : Algorithm::direct;
}

struct Engines {
  /// Both must outlive this.
  Engines(const Membership& member, const GroupOptions& options)
      : member(member), options(options), host_kind(options.transport) {}
  /// Makes them; returns when all ranks have come.
  void connect();
  bool uses_nccl(Device device) const { return nccl && device.type != DeviceType::cpu; }
  TransportKind transport(Device device) const {
    return uses_nccl(device) ? TransportKind::nccl : host_kind;
  }
  /// The algorithm of a collective over these pieces, or over even ones. `automatic` until the
  /// collective runs: choose() then replaces it, the same way on all ranks, and returns true.
  Algorithm algorithm(Op op, Device device, const Pieces& pieces = {}) const;
  bool choose(Collective& collective) const;
  /// After an automatic collective has run by steps: its ranks have shown their devices. The first
  /// one decides.
  void choose_for_later();
  /// The algorithm that `automatic` is now.
  Algorithm automatic() const;
  /// Error if no transport takes tensors of the device.
  Engine& engine(const Call& call, Device device) const;
  /// Into how many segments a collective cuts pieces of this size.
  std::int64_t segments(Device device, std::int64_t longest_bytes) const;
  /// After an error: ends the collective in flight.
  void abandon() noexcept;

  const Membership& member;
  const GroupOptions& options;
  TransportKind host_kind;
  std::unique_ptr<Transport> host;  // for CPU tensors, and for all tensors if host_kind is thread
  std::unique_ptr<Transport> nccl;  // for tensors on GPUs, unless null; uses `host`
  std::unique_ptr<Engine> over_host, over_nccl, in_kernel;
  enum class Choice { none, no, yes };
  std::atomic<Choice> launches_once{Choice::none};  // automatic collectives, once one has run
};

}  // namespace ringlet::comm
