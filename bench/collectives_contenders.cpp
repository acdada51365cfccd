#include "collectives_contenders.h"

#include <algorithm>

#include "repeat.h"
#include "ringlet/comm/engine.h"
#include "ringlet/core/backend.h"
#include "ringlet/core/error.h"

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

class GroupContender final : public Contender {
 public:
  GroupContender(const CollectivesOptions& options, const comm::Group& world,
                 std::shared_ptr<Exercise> exercise, comm::GroupOptions group)
      : options_(options), world_(world), exercise_(std::move(exercise)) {
    std::vector<int> all;
    for (int rank = 0; rank < world.size(); ++rank) all.push_back(rank);
    group_ = world.subgroup(all, group);
  }

  std::string algorithm() const override { return std::string(name(group_.options().algorithm)); }
  std::string transport() const override {
    return std::string(name(group_.transport(exercise_->device())));
  }
  bool can(const std::string& op) const override {
    const comm::GroupOptions& its = group_.options();
    if (comm::is_in_kernel(its.algorithm)) return op == "all_reduce";
    return op != "reduce_scatter" || its.algorithm != comm::Algorithm::native ||
           its.transport != comm::TransportKind::gloo;
  }

  Measurement run(const std::string& op, std::int64_t bytes, bool check) override {
    Measurement measurement;
    exercise_->prepare(bytes, group_.options().algorithm == comm::Algorithm::native);
    if (check) {
      const std::int64_t mine = exercise_->wrong(op, group_);
      for (const std::string& count : world_.all_gather_bytes(std::to_string(mine)))
        measurement.wrong += std::stoll(count);
    }
    measurement.seconds =
        repeat(world_, exercise_->device(), options_.seconds, [&] { exercise_->run(op, group_); });
    return measurement;
  }

 private:
  const CollectivesOptions& options_;
  comm::Group world_;
  std::shared_ptr<Exercise> exercise_;
  comm::Group group_;
};

class CopyContender final : public Contender {
 public:
  CopyContender(const CollectivesOptions& options, const comm::Group& world,
                std::shared_ptr<Exercise> exercise)
      : options_(options), world_(world), exercise_(std::move(exercise)) {}

  std::string algorithm() const override { return "copy"; }
  std::string transport() const override { return "-"; }
  bool can(const std::string& op) const override { return op != "barrier"; }
  Measurement run(const std::string& op, std::int64_t bytes, bool) override {
    exercise_->prepare(bytes);
    return {repeat(world_, exercise_->device(), options_.seconds, [&] { exercise_->copy(op); }), 0};
  }

 private:
  const CollectivesOptions& options_;
  comm::Group world_;
  std::shared_ptr<Exercise> exercise_;
};

}  // namespace

std::vector<std::unique_ptr<Contender>> make_contenders(const CollectivesOptions& options,
                                                        const comm::Group& world) {
  const auto exercise = std::make_shared<Exercise>(options, world);
  std::vector<std::unique_ptr<Contender>> contenders;
  const auto add = [&](comm::TransportKind transport, comm::Algorithm algorithm) {
    const comm::GroupOptions group{.transport = transport,
                                   .algorithm = algorithm,
                                   .timeout = world.options().timeout,
                                   .segment_bytes = options.segment_bytes};
    contenders.push_back(std::make_unique<GroupContender>(options, world, exercise, group));
  };
  const bool all = options.algorithm == "all";
  if (all || options.algorithm == "direct") add(options.transport, comm::Algorithm::direct);
  if (all || options.algorithm == "ring") add(options.transport, comm::Algorithm::ring);
  if ((all || options.algorithm == "in-kernel") && options.why_not_in_kernel().empty()) {
    add(options.transport, comm::Algorithm::in_kernel_direct);
    add(options.transport, comm::Algorithm::in_kernel_ring);
  }
  const bool native = all || options.algorithm == "native";
  if (options.why_not_nccl().empty()) {
    if (all) {
      add(comm::TransportKind::nccl, comm::Algorithm::direct);
      add(comm::TransportKind::nccl, comm::Algorithm::ring);
    }
    if (native) add(comm::TransportKind::nccl, comm::Algorithm::native);
  }
#if defined(RINGLET_BENCH_GLOO)
  if (native && options.device.type == DeviceType::cpu)
    add(comm::TransportKind::gloo, comm::Algorithm::native);
#endif
  if (options.mpi)
    if (auto mpi = make_mpi_contender(options, world)) contenders.push_back(std::move(mpi));
  if (all) contenders.push_back(std::make_unique<CopyContender>(options, world, exercise));
  return contenders;
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
  pieces_ = comm::even_pieces(n, size_);
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
