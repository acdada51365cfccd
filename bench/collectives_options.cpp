#include <algorithm>

#include "collectives.h"
#include "program_options.h"
#include "ringlet/comm/membership.h"
#include "ringlet/core/base/error.h"
#include "ringlet/core/device/backend.h"
#include "ringlet/cuda/all_reduce_plan.h"

namespace ringlet::bench {

std::vector<std::int64_t> CollectivesOptions::sizes() const {
  std::vector<std::int64_t> all{begin};
  // The size after 0 is one element. The limit avoids overflow of 64 bits near the end.
  while (all.back() <= end / factor)
    all.push_back(std::max(all.back() * factor, static_cast<std::int64_t>(itemsize(dtype))));
  if (all.back() > end) all.pop_back();
  return all;
}

Device CollectivesOptions::device_of(int rank) const {
  if (device.type == DeviceType::cpu) return device;
  return device_of_rank(device, rank);
}

bool CollectivesOptions::share_a_gpu() const {
  return device.type != DeviceType::cpu && device_of(1) == device;
}

std::string CollectivesOptions::why_not_in_kernel() const {
  if (device.type == DeviceType::cpu)
    return "they are for ranks on GPUs (--device cuda), and these are on a CPU";
  if (ranks > cuda::kMostPeers)
    return str("a launch takes ", cuda::kMostPeers, " ranks at most, and these are ", ranks);
  if (transport != comm::TransportKind::thread)
    return str("they are for ranks that meet over thread, and these do over ",
               comm::name(transport));
  if (share_a_gpu()) return "";
  std::vector<Device> devices;
  for (int rank = 0; rank < ranks; ++rank) devices.push_back(device_of(rank));
  DeviceBackend& gpus = backend(device.type);
  for (const Device to : devices)
    for (const Device from : devices)
      if (to != from && !gpus.has_link(to, from)) return str(to, " has no peer access to ", from);
  return gpus.make_ranks(devices, 1) ? "" : "these devices run no ranks by a launch on each";
}

std::string CollectivesOptions::why_not_nccl() const {
  if (device.type == DeviceType::cpu) return "it is for tensors on GPUs, and these are on a CPU";
  if (const int gpus = backend(device.type).device_count(); gpus < ranks)
    return str("it takes no two ranks of one GPU, and of these there are ", gpus);
  try {
    comm::check_nccl();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

std::vector<std::pair<std::string, std::string>> CollectivesOptions::left_out() const {
  std::vector<std::pair<std::string, std::string>> all;
  if (const std::string why = why_not_in_kernel(); !why.empty()) all.emplace_back("in-kernel", why);
  if (device.type == DeviceType::cpu) return all;
  if (const std::string why = why_not_nccl(); !why.empty()) all.emplace_back("nccl", why);
  return all;
}

std::optional<CollectivesOptions> parse_collectives(int argc, char** argv) {
  CollectivesOptions o;
  std::string dtype = "f32", device = "cpu";
  bool no_mpi = false;
  Command app(
      "collectives",
      "Collectives between processes of this host, or between threads that have a GPU each or\n"
      "share one (--device cuda), after nccl-tests: time, algbw = bytes / time,\n"
      "busbw = what each link carries, wrong values. Every size is measured with all contenders "
      "in\n"
      "turn: ours (direct, ring, of ranks on GPUs also as a launch on each), gloo's own "
      "(native),\n"
      "Open MPI's, and the copies that ours cannot do without, free of any waiting (copy).");
  add_device_option(app, device);
  app.add("--ranks", o.ranks, Range{2, 256}, "processes, on GPUs threads");
  app.add("--op", o.ops,
          OneOf{{"all_reduce", "reduce_scatter", "all_gather", "broadcast", "barrier"}},
          "all of them unless given; may be repeated");
  app.add("-b,--begin", o.begin, cli::parse_bytes,
          "smallest buffer, bytes; 0: nothing, then one element");
  app.add("-e,--end", o.end, cli::parse_bytes, "largest buffer, bytes");
  app.add("-f,--factor", o.factor, Range{2, 1024}, "from one size to the next");
  app.add("--rounds", o.rounds, Range{1, 1000}, "rounds over all sizes");
  app.add("--seconds", o.seconds, Range{0.001, 60.0}, "per size and contender in each round");
  app.add("--dtype", dtype, "of the elements");
  app.add("--transport", o.transport, comm::parse_transport,
          "of ring and direct: auto, thread, shm or gloo, nccl on GPUs");
  app.add("--algorithm", o.algorithm, OneOf{{"all", "ring", "direct", "in-kernel", "native"}},
          "ring, direct, in-kernel (both, as a launch on each GPU), native, or all of them and the "
          "copies");
  app.add("--no-mpi", no_mpi, "leave Open MPI out");
  app.add("--json", o.json, "write the rows to this file");
  if (!parse(app, argc, argv)) return std::nullopt;
  o.dtype = parse_dtype(dtype);
  o.device = use_device(device);
  const bool on_cpu = o.device.type == DeviceType::cpu;
  if (on_cpu && o.transport == comm::TransportKind::nccl)
    fail_input("--transport nccl: is for tensors on GPUs, and these are on a CPU");
  if (!on_cpu && o.transport == comm::TransportKind::automatic)
    o.transport = comm::TransportKind::thread;
  if (const std::string why = o.why_not_in_kernel(); o.algorithm == "in-kernel" && !why.empty())
    fail_input("--algorithm in-kernel: ", why);
  if (!on_cpu && o.algorithm == "native")
    if (const std::string why = o.why_not_nccl(); !why.empty())
      fail_input("--algorithm native: ", why);
  o.mpi = !no_mpi && o.algorithm == "all" && on_cpu;
  if (o.end < o.begin)
    fail_input("--begin ", o.begin, " --end ", o.end, ": expected a range of sizes");
  return o;
}

}  // namespace ringlet::bench
