#include "ringlet/comm/engines.h"

#include <algorithm>

#include "ringlet/core/base/error.h"

namespace ringlet::comm {
namespace {

// Whether a kernel takes these pieces: one after another, with edges at multiples of kPieceAlign.
bool are_for_kernels(const Pieces& pieces) {
  std::int64_t edge = 0;
  for (const Piece& piece : pieces) {
    if (piece.offset != edge) return false;
    edge += piece.count;
    const bool is_end = edge == pieces.back().offset + pieces.back().count;
    if (edge % kPieceAlign != 0 && !is_end) return false;
  }
  return true;
}

}  // namespace

void Engines::connect() {
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

Algorithm Engines::algorithm(Op op, Device device, const Pieces& pieces) const {
  if (op >= Op::gather) return Algorithm::direct;
  const bool on_cpu = device.type == DeviceType::cpu;
  const Algorithm given = options.algorithm;
  // NCCL's own collectives take tensors on GPUs. CPU tensors of such a group are small.
  const bool without_own =
      given == Algorithm::native && on_cpu && options.transport == TransportKind::nccl;
  if (without_own) return Algorithm::direct;
  const bool automatic = given == Algorithm::automatic;
  if (automatic && (host_kind != TransportKind::thread || nccl)) return Algorithm::direct;
  const bool has_kernel =
      op == Op::all_reduce ||
      (given != Algorithm::in_kernel_ring && (op == Op::reduce_scatter || op == Op::all_gather));
  if ((automatic || is_in_kernel(given)) && (on_cpu || !has_kernel || !are_for_kernels(pieces)))
    return steps_of(given);
  return given;
}

bool Engines::choose(Collective& collective) const {
  Algorithm& algorithm = collective.call.algorithm;
  if (algorithm != Algorithm::automatic) return false;
  algorithm = automatic();
  collective.engine = &engine(collective.call, collective.buffer.device());
  return true;
}

void Engines::choose_for_later() {
  if (launches_once != Choice::none) return;
  launches_once = can_launch_once(host->devices()) ? Choice::yes : Choice::no;
}

Algorithm Engines::automatic() const {
  return launches_once == Choice::yes ? Algorithm::in_kernel_direct : Algorithm::direct;
}

Engine& Engines::engine(const Call& call, Device device) const {
  if (device.type != DeviceType::cpu && !nccl && host_kind != TransportKind::thread)
    fail("[", name(call.op), "] of a tensor on ", device, ": ", why_no_nccl());
  if (is_in_kernel(call.algorithm)) return *in_kernel;
  if (call.algorithm == Algorithm::native) return *(uses_nccl(device) ? nccl : host)->engine();
  return uses_nccl(device) ? *over_nccl : *over_host;
}

std::int64_t Engines::segments(Device device, std::int64_t longest_bytes) const {
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

void Engines::abandon() noexcept {
  if (nccl) nccl->abandon();
  if (in_kernel) in_kernel->abandon();
  if (host) host->abandon();
}

}  // namespace ringlet::comm
