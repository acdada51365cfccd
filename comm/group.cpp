// Makes a group's transports and engines, and chooses among them.
#include "ringlet/comm/group.h"

#include <algorithm>

#include "ringlet/comm/group_state.h"
#include "ringlet/core/base/error.h"

namespace ringlet::comm {

GroupState::GroupState(Membership member_, GroupOptions options_, bool connects_late_)
    : member(std::move(member_)),
      options(std::move(options_)),
      host_kind(options.transport),
      connects_late(connects_late_) {
  RINGLET_CHECK(options.segment_bytes >= 0, "[group] segments of ", options.segment_bytes,
                " bytes");
  if (options.timed) {
    running = std::make_shared<DeviceClock>();
    waited = std::make_shared<DeviceClock>();
  }
  if (member.size > 1 && !connects_late) connect();
}

void GroupState::connect() {
  const bool given_nccl = options.transport == TransportKind::nccl;
  if (given_nccl) check_nccl();
  host = make_transport(host_kind, member);
  over_host = make_schedule_engine(*host, member.rank, member.size);
  in_kernel = make_in_kernel_engine(*host, member);
  const bool by_thread = host_kind == TransportKind::thread && !given_nccl;
  if (!by_thread) nccl = make_nccl_transport(member, *host, host_kind);
  if (nccl) over_nccl = make_schedule_engine(*nccl, member.rank, member.size);
  if (options.algorithm == Algorithm::native && !given_nccl && !host->engine())
    fail_input("[group] ", name(host_kind), " has no native collectives: choose ring or direct");
  if (is_in_kernel(options.algorithm) && !by_thread)
    fail_input("[group] ", name(options.algorithm),
               " is for ranks that are threads of one process, and these meet over ",
               name(given_nccl ? TransportKind::nccl : host_kind), ": choose ring or direct");
  *member.unwinds = false;
}

Algorithm GroupState::algorithm(Op op, Device device) const {
  if (op >= Op::gather) return Algorithm::direct;
  const bool on_cpu = device.type == DeviceType::cpu;
  const Algorithm given = options.algorithm;
  // NCCL's own collectives take tensors on GPUs. CPU tensors of such a group are small.
  const bool without_own =
      given == Algorithm::native && on_cpu && options.transport == TransportKind::nccl;
  if (given == Algorithm::automatic || without_own) return Algorithm::direct;
  const bool has_kernel =
      op == Op::all_reduce ||
      (given == Algorithm::in_kernel_direct && (op == Op::reduce_scatter || op == Op::all_gather));
  if (is_in_kernel(given) && (on_cpu || !has_kernel)) return steps_of(given);
  return given;
}

Engine& GroupState::engine(const Call& call, Device device) const {
  if (device.type != DeviceType::cpu && !nccl && host_kind != TransportKind::thread)
    fail("[", name(call.op), "] of a tensor on ", device, ": ", why_no_nccl());
  if (is_in_kernel(call.algorithm)) return *in_kernel;
  if (call.algorithm == Algorithm::native) return *(uses_nccl(device) ? nccl : host)->engine();
  return uses_nccl(device) ? *over_nccl : *over_host;
}

std::int64_t GroupState::segments(Device device, std::int64_t longest_bytes) const {
  constexpr std::int64_t kMostOfCpu = std::int64_t{512} << 10,
                         kLeastOfDevice = std::int64_t{4} << 20;
  constexpr std::int64_t kMostOnDevice = 4;
  // On a device, launches cost more than the cache gains.
  if (device.type != DeviceType::cpu && options.segment_bytes == 0)
    return std::clamp<std::int64_t>(longest_bytes / kLeastOfDevice, 1, kMostOnDevice);
  // A segment of this size is still in the cache when its result comes back.
  const std::int64_t most = options.segment_bytes > 0 ? options.segment_bytes : kMostOfCpu;
  return std::max<std::int64_t>(1, (longest_bytes + most - 1) / most);
}

Group::Group(std::shared_ptr<Store> store, int rank, int size, GroupOptions options,
             const std::string& id, const std::vector<int>& names) {
  RINGLET_CHECK(0 <= rank && rank < size, "[group] rank ", rank, " of ", size);
  state_ = GroupState::shared(
      {std::move(store), rank, size, options.timeout, id, options.on_note, names}, options);
}

// All worlds of one are the same.
Group::Group() {
  static const auto alone = std::make_shared<GroupState>(
      Membership{make_memory_store(), 0, 1, {}, "world"}, GroupOptions());
  state_ = alone;
}

int Group::rank() const { return state_->member.rank; }
int Group::size() const { return state_->member.size; }
const GroupOptions& Group::options() const { return state_->options; }
Store& Group::store() const { return *state_->member.store; }

TransportKind Group::transport(Device device) const {
  return state_->uses_nccl(device) ? TransportKind::nccl : state_->host_kind;
}

GroupStats Group::stats() const { return state_->stats(); }

}  // namespace ringlet::comm
