#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <sstream>

#include "collectives.h"
#include "ringlet/comm/engine.h"
#include "ringlet/comm/membership.h"
#include "ringlet/core/base/error.h"
#include "ringlet/core/device/backend.h"
#include "ringlet/cuda/all_reduce_plan.h"
#include "timed_ranks.h"

namespace ringlet::bench {
namespace {

// Small enough to be exact in every dtype, including u8 for up to 8 ranks.
double element(int rank, std::int64_t i) { return static_cast<double>((i + 3 * rank) % 29); }

Tensor encoded(int rank, std::int64_t n, DType dtype) {
  Tensor values = empty({n}, DType::f32, Device{});
  float* data = values.mutable_data<float>();
  for (std::int64_t i = 0; i < n; ++i) data[i] = static_cast<float>(element(rank, i));
  return values.to(dtype);
}

// Bytes that a rank reads and writes per byte of the buffer. The sum reads all ranks' parts of a
// piece and writes one; every other rank reads and writes gathered data once.
double moved_by_a_rank(const std::string& op, double n) {
  if (op == "all_reduce") return (1 + 1 / n) + 2 * (n - 1) / n;
  if (op == "reduce_scatter") return 1 + 1 / n;
  return op == "all_gather" ? 2 * (n - 1) / n : 2;
}

// The same for all ranks together: data that one rank has just accessed is in the cache for its
// peers.
double moved_in_one_memory(const std::string& op, double n) {
  if (op == "all_reduce") return 2 * n;
  return op == "reduce_scatter" ? n + 1 : n;
}

Contender of_group(const CollectivesOptions& options, const comm::Group& world,
                   const std::shared_ptr<Exercise>& exercise, const comm::GroupOptions& chosen) {
  const comm::Group group = first_ranks(world, world.size(), chosen);
  const bool native = chosen.algorithm == comm::Algorithm::native;
  const auto can = [=](const std::string& op) {
    const bool halves = op == "reduce_scatter" || op == "all_gather";
    if (comm::is_in_kernel(chosen.algorithm))
      return op == "all_reduce" ||
             (chosen.algorithm == comm::Algorithm::in_kernel_direct && halves);
    return op != "reduce_scatter" || !native || chosen.transport != comm::TransportKind::gloo;
  };
  const auto run = [=, &options, &world](const std::string& op, std::int64_t bytes, bool check) {
    Timed timed;
    exercise->prepare(bytes, native);
    if (check)
      for (const std::string& count :
           world.all_gather_bytes(std::to_string(exercise->wrong(op, group))))
        timed.wrong += std::stoll(count);
    timed.seconds =
        repeat(world, exercise->device(), options.seconds, [&] { exercise->run(op, group); });
    return timed;
  };
  return {std::string(name(chosen.algorithm)),
          std::string(name(group.transport(exercise->device()))), can, run};
}

Contender of_copies(const CollectivesOptions& options, const comm::Group& world,
                    const std::shared_ptr<Exercise>& exercise) {
  const auto run = [=, &options, &world](const std::string& op, std::int64_t bytes, bool) {
    exercise->prepare(bytes);
    return Timed{repeat(world, exercise->device(), options.seconds, [&] { exercise->copy(op); }),
                 0};
  };
  return {"copy", "-", [](const std::string& op) { return op != "barrier"; }, run};
}

// Containers give root and few processors.
constexpr const char* kMpirun = "mpirun --oversubscribe --allow-run-as-root -np ";

bool has_mpi(const CollectivesOptions& options) {
  return options.mpi && std::string(RINGLET_BENCH_MPI) != "" && options.dtype == DType::f32 &&
         std::system(str(kMpirun, "1 true >/dev/null 2>&1").c_str()) == 0;
}

// A separate program under mpirun, started by rank 0 while the other ranks sleep. It has its own
// buffers, with the sizes and values of ours.
Contender of_mpi(const CollectivesOptions& options, const comm::Group& world) {
  const auto run = [&options, &world](const std::string&, std::int64_t bytes, bool) {
    Timed timed;
    if (world.rank() == 0) {
      const std::string command = str(kMpirun, world.size(), " ", RINGLET_BENCH_MPI, " ", bytes,
                                      " ", options.seconds, " 2>&1");
      FILE* pipe = popen(command.c_str(), "r");
      RINGLET_CHECK(pipe, "cannot start ", command);
      std::string text;
      char part[4096];
      while (const std::size_t n = std::fread(part, 1, sizeof(part), pipe)) text.append(part, n);
      RINGLET_CHECK_EQ(pclose(pipe), 0, command, "\n", text);
      std::istringstream values(text);
      values >> timed.wrong;
      for (double seconds; values >> seconds;) timed.seconds.push_back(seconds);
    }
    world.barrier();
    return timed;
  };
  return {"openmpi", "-", [](const std::string& op) { return op == "all_reduce"; }, run};
}

}  // namespace

std::vector<Contender> make_contenders(const CollectivesOptions& options,
                                       const comm::Group& world) {
  using comm::Algorithm, comm::TransportKind;
  const auto exercise = std::make_shared<Exercise>(options, world);
  std::vector<Contender> contenders;
  const auto add = [&](TransportKind transport, std::initializer_list<Algorithm> algorithms) {
    for (const Algorithm algorithm : algorithms)
      contenders.push_back(of_group(
          options, world, exercise,
          {.transport = transport, .algorithm = algorithm, .timeout = world.options().timeout}));
  };
  const bool all = options.algorithm == "all";
  const auto wanted = [&](const char* name) { return all || options.algorithm == name; };
  if (wanted("direct")) add(options.transport, {Algorithm::direct});
  if (wanted("ring")) add(options.transport, {Algorithm::ring});
  if (wanted("in-kernel") && options.why_not_in_kernel().empty())
    add(options.transport, {Algorithm::in_kernel_direct, Algorithm::in_kernel_ring});
  if (options.why_not_nccl().empty()) {
    if (all) add(TransportKind::nccl, {Algorithm::direct, Algorithm::ring});
    if (wanted("native")) add(TransportKind::nccl, {Algorithm::native});
  }
#if defined(RINGLET_BENCH_GLOO)
  if (wanted("native") && options.device.type == DeviceType::cpu)
    add(TransportKind::gloo, {Algorithm::native});
#endif
  if (has_mpi(options)) contenders.push_back(of_mpi(options, world));
  if (all) contenders.push_back(of_copies(options, world, exercise));
  return contenders;
}

// ---- what can be measured ---------------------------------------------------------------

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

// ---- the exercise -------------------------------------------------------------------------

Exercise::Exercise(const CollectivesOptions& options, const comm::Group& world)
    : dtype_(options.dtype),
      rank_(world.rank()),
      size_(world.size()),
      share_a_gpu_(options.share_a_gpu()) {
  const std::int64_t most =
      options.sizes().back() / static_cast<std::int64_t>(itemsize(dtype_)) + 1;
  const Device device = options.device_of(rank_);
  memory_ = zeros({most}, dtype_, device);
  other_ = zeros({most}, dtype_, device);
}

void Exercise::prepare(std::int64_t bytes, bool even) {
  std::int64_t n = bytes / static_cast<std::int64_t>(itemsize(dtype_));
  if (even) n -= n % size_;
  pieces_ = comm::even_pieces(n, size_, even ? 1 : comm::kPieceAlign);
  buffer_ = memory_.slice(0, n);
  buffer_.zero_();  // sums of sums stay finite, and no denormals slow the sums down
  const auto [offset, count] = pieces_[static_cast<std::size_t>(rank_)];
  part_ = buffer_.slice(offset, offset + count);
}

void Exercise::run(const std::string& op, const comm::Group& group) {
  if (op == "all_reduce") {
    group.all_reduce(buffer_).wait();
  } else if (op == "reduce_scatter") {
    group.reduce_scatter(part_, buffer_, pieces_).wait();
  } else if (op == "all_gather") {
    group.all_gather(buffer_, part_, pieces_).wait();
  } else if (op == "broadcast") {
    group.broadcast(buffer_).wait();
  } else {
    group.barrier();
  }
}

std::int64_t Exercise::wrong(const std::string& op, const comm::Group& group) {
  if (op == "barrier") return 0;
  const bool reduces = op == "all_reduce" || op == "reduce_scatter";
  buffer_.copy_(encoded(rank_, buffer_.numel(), dtype_));
  run(op, group);

  const auto expected = [&](std::int64_t i) {
    if (op == "broadcast") return element(0, i);
    double sum = 0;
    for (int rank = 0; reduces && rank < size_; ++rank) sum += element(rank, i);
    for (int rank = 0; !reduces && rank < size_; ++rank) {
      const auto [offset, count] = pieces_[static_cast<std::size_t>(rank)];
      if (i >= offset && i < offset + count) sum = element(rank, i);
    }
    return sum;
  };
  const Tensor& result = op == "reduce_scatter" ? part_ : buffer_;
  const std::int64_t start =
      op == "reduce_scatter" ? pieces_[static_cast<std::size_t>(rank_)].offset : 0;
  const Tensor values = result.to(DType::f32).to(Device{});
  const float* data = values.data<float>();
  std::int64_t wrong = 0;
  for (std::int64_t i = 0; i < values.numel(); ++i)
    wrong += data[i] != static_cast<float>(expected(start + i));
  buffer_.zero_();
  return wrong;
}

void Exercise::copy(const std::string& op) {
  if (share_a_gpu_ && rank_ != 0) return;
  const double moved = share_a_gpu_ ? moved_in_one_memory(op, size_) : moved_by_a_rank(op, size_);
  const std::size_t nbytes = buffer_.nbytes();
  auto left = static_cast<std::size_t>(moved / 2 * static_cast<double>(nbytes));
  std::size_t at = 0;
  while (left > 0) {
    const std::size_t now = std::min(left, nbytes);
    comm::copy_bytes(device(), other_.mutable_bytes() + at, memory_.bytes() + at, now);
    left -= now;
    // On a shared GPU the copies go through all ranks' parts, so that the cache holds no more of
    // them than of a collective's data.
    if (share_a_gpu_) at = at + 2 * nbytes <= memory_.nbytes() ? at + nbytes : 0;
  }
}

}  // namespace ringlet::bench
