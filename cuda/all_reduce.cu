// The all-reduce of one block of one rank.
//
// Why no two accesses race. A rank alone writes its data, its staging and its own column of its
// peers' flags. It writes, synchronises its threads and then releases a signal; a reader acquires
// that signal and synchronises its threads before they read. Data that a peer may still be reading
// is overwritten in two places:
//   ring     a gathered piece overwrites the rank's own part of the sum, and new partial sums the
//            slots of the last segment's: the next rank has read both, as the sums that arrive now
//            passed through it
//   direct   a gathered piece overwrites data that its owner read before it released the sum
// Behind the last step a rank ends only after its readers have signalled that they are done. No
// shared memory is used.
#include "ringlet/cuda/all_reduce.h"

#include "ringlet/core/device/dispatch.h"
#include "ringlet/cuda/all_reduce_block.cuh"
#include "ringlet/cuda/launch_gate.h"

namespace ringlet::cuda {

namespace {

template <class T, CombineOp op, CombineRoute route>
class AllReduceBlock {
 public:
  using S = compute_t<T>;

  /// Block `index` of rank `rank`.
  __device__ __forceinline__ AllReduceBlock(const AllReduceRun& run, int rank, int index)
      : run_(run), rank_(rank), index_(index), signals_(run, rank, index) {}

  /// The whole collective. Stops if a wait times out, on this rank or on a peer.
  __device__ __forceinline__ void run() const {
    constexpr bool ring = route == CombineRoute::ring;
    const Peers readers = ring ? signals_.next() : signals_.others();
    signals_.raise(readers, AllReducePlan::kReady);
    if (ring ? reduce_by_ring() : reduce_directly()) signals_.end(readers);
  }

 private:
  __device__ __forceinline__ const AllReducePlan& plan() const { return run_.plan; }
  __device__ __forceinline__ T* data(int rank) const {
    return static_cast<T*>(run_.view.data[rank]);
  }
  __device__ __forceinline__ S* slot(int rank, int slot) const {
    return static_cast<S*>(run_.view.staging[rank]) + plan().slot_begin(index_, slot);
  }

  // ---- schedules ---------------------------------------------------------------------------

  __device__ __forceinline__ bool reduce_by_ring() const {
    const Peers previous = signals_.previous();
    const int source = previous.first, last = plan().ring_steps() - 1;
    for (std::int64_t segment = 0; segment < plan().segments; ++segment)
      for (int step = 0; step <= last; ++step) {
        if (!signals_.wait(previous, plan().signal(segment, step), step, segment)) return false;
        const RingStep now = plan().ring_step(rank_, step);
        const Part part = plan().part(now.piece, segment, index_);
        if (now.gathers)
          copy(source, part);
        else if (now.first)
          add(data(source) + part.begin, part, now);
        else
          add(slot(source, now.from_slot), part, now);
        if (step < last) signals_.raise(signals_.next(), plan().signal(segment, step + 1));
      }
    return true;
  }

  __device__ __forceinline__ bool reduce_directly() const {
    if (!signals_.wait(signals_.others(), AllReducePlan::kReady, 0, 0)) return false;
    for (std::int64_t segment = 0; segment < plan().segments; ++segment) {
      if (run_.reduces) add_all(plan().part(rank_, segment, index_));
      if (!run_.gathers) continue;
      if (run_.reduces) signals_.raise(signals_.others(), plan().signal(segment, 1));
      for (int i = 1; i < plan().ranks; ++i) {
        const int source = plan().around(rank_ + i);
        const std::uint32_t whole =
            run_.reduces ? plan().signal(segment, 1) : AllReducePlan::kReady;
        if (!signals_.wait({source, 1}, whole, 1, segment)) return false;
        copy(source, plan().part(source, segment, index_));
      }
    }
    return true;
  }

  // ---- operations on a part ----------------------------------------------------------------

  /// each_of_block() with load<kWidth>(k, i), over elements [0, count): packs first, then single
  /// elements.
  template <class Load, class Fold, class Store>
  __device__ __forceinline__ void each(std::int64_t count, int sources, const Load& load,
                                       const Fold& fold, const Store& store) const {
    const std::int64_t packs = run_.packed ? count / kPack<T> : 0, rest = packs * kPack<T>;
    each_of_block(
        packs, sources,
        [&](int k, std::int64_t i) { return load.template operator()<kPack<T>>(k, i * kPack<T>); },
        fold, [&](std::int64_t i, const auto& values) { store(i * kPack<T>, values); });
    each_of_block(
        count - rest, sources,
        [&](int k, std::int64_t i) { return load.template operator()<1>(k, rest + i); }, fold,
        [&](std::int64_t i, const auto& values) { store(rest + i, values); });
  }

  struct Combine {
    template <int kWidth>
    __device__ __forceinline__ Values<S, kWidth> operator()(Values<S, kWidth> sum,
                                                            const Values<S, kWidth>& next) const {
#pragma unroll
      for (int j = 0; j < kWidth; ++j) sum.of[j] = combined<op>(sum.of[j], next.of[j]);
      return sum;
    }
  };

  template <int kWidth>
  __device__ __forceinline__ void store_whole(T* to, Values<S, kWidth> sum) const {
#pragma unroll
    for (int j = 0; j < kWidth; ++j) sum.of[j] = scaled(sum.of[j], static_cast<S>(run_.scale));
    store_values(to, sum);
  }

  /// The earlier sum (the left operand) plus this rank's data.
  template <class From>
  __device__ __forceinline__ void add(const From* from, const Part& part,
                                      const RingStep& step) const {
    T* mine = data(rank_) + part.begin;
    const auto load = [&]<int kWidth>(int k, std::int64_t i) {
      return k == 0 ? load_values<S, kWidth>(from + i) : load_values<S, kWidth>(mine + i);
    };
    if (step.last)
      return each(part.count, 2, load, Combine(),
                  [&](std::int64_t i, const auto& sum) { store_whole(mine + i, sum); });
    S* to = slot(rank_, step.to_slot);
    each(part.count, 2, load, Combine(),
         [&](std::int64_t i, const auto& sum) { store_values(to + i, sum); });
  }

  /// By the tree over the ranks.
  __device__ __forceinline__ void add_all(const Part& part) const {
    T* to = static_cast<T*>(run_.view.own[rank_]) + (part.begin - plan().edge[rank_]);
    each(
        part.count, plan().ranks,
        [&]<int kWidth>(int rank, std::int64_t i) {
          return load_values<S, kWidth>(data(rank) + part.begin + i);
        },
        Combine(), [&](std::int64_t i, const auto& sum) { store_whole(to + i, sum); });
  }

  __device__ __forceinline__ void copy(int source, const Part& part) const {
    const T* from = data(source) + part.begin;
    T* to = data(rank_) + part.begin;
    each(
        part.count, 1,
        [&]<int kWidth>(int, std::int64_t i) { return load_values<T, kWidth>(from + i); },
        [](const auto& only, const auto&) { return only; },
        [&](std::int64_t i, const auto& values) { store_values(to + i, values); });
  }

  const AllReduceRun& run_;
  int rank_;
  int index_;
  AllReduceSignals signals_;
};

// ---- kernels ------------------------------------------------------------------------------

template <class T, CombineOp op, CombineRoute route>
__global__ void __launch_bounds__(kBlockThreads, 1)
    all_reduce_blocks(const __grid_constant__ AllReduceRun run) {
  const int block = static_cast<int>(blockIdx.x), blocks = run.plan.blocks;
  AllReduceBlock<T, op, route>(run, run.launched[block / blocks], block % blocks).run();
}

// ---- launchers ----------------------------------------------------------------------------

using AllReduceKernel = void (*)(AllReduceRun);

template <class T, CombineOp op>
AllReduceKernel kernel_of(CombineRoute route) {
  return route == CombineRoute::ring ? all_reduce_blocks<T, op, CombineRoute::ring>
                                     : all_reduce_blocks<T, op, CombineRoute::direct>;
}

AllReduceKernel kernel_of(DType dtype, CombineOp op, CombineRoute route) {
  AllReduceKernel kernel = nullptr;
  dispatch_all("all_reduce", dtype, [&]<class T>() {
    kernel = op == CombineOp::max ? kernel_of<T, CombineOp::max>(route)
                                  : kernel_of<T, CombineOp::sum>(route);
  });
  return kernel;
}

// Whether all data lies at multiples of 16 bytes; Error if data is not aligned to its elements.
bool is_packed(const PeerView& view, std::size_t itemsize) {
  bool packed = true;
  for (int rank = 0; rank < view.ranks; ++rank)
    for (const void* at : {view.data[rank], view.own[rank]}) {
      RINGLET_CHECK(reinterpret_cast<std::uintptr_t>(at) % itemsize == 0, "[all_reduce] rank ",
                    rank, "'s elements lie at an address that ", itemsize, " does not divide");
      packed = packed && aligned16(at);
    }
  return packed;
}

}  // namespace

int most_all_reduce_blocks(Device device, int ranks) {
  int multiprocessors = 0;
  RINGLET_CUDA(
      cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, device.index));
  return multiprocessors / ranks;  // one block fits on each multiprocessor, for every dtype
}

AllReducePlan plan_all_reduce(CombineRoute route, std::span<const std::int64_t> edges, DType dtype,
                              int most_blocks, std::int64_t most_chunk_bytes) {
  const bool narrow = dtype == DType::bf16 || dtype == DType::f16;
  const auto size = static_cast<std::int64_t>(narrow ? sizeof(float) : itemsize(dtype));
  return plan_all_reduce(route, edges, most_blocks, kLeastChunkBytes / size,
                         most_chunk_bytes / size);
}

void all_reduce(const PeerView& view, const AllReducePlan& plan, const PeerCall& call,
                std::span<const int> launched, double seconds, Device device) {
  RINGLET_CHECK_EQ(plan.ranks, view.ranks, "[all_reduce] ranks of the plan and the view");
  const auto count = static_cast<int>(launched.size());
  RINGLET_CHECK(1 <= count && count <= view.ranks, "[all_reduce] a launch of ", count, " of ",
                view.ranks, " ranks");
  RINGLET_CHECK(call.scale == 1 || (is_floating(call.dtype) && call.op == CombineOp::sum),
                "[all_reduce] scale ", call.scale,
                ": only sums of floating types take one other than 1");
  RINGLET_CHECK(0 < seconds && seconds < 1e9, "[all_reduce] waits of ", seconds, " s");
  RINGLET_CHECK((call.reduces && call.gathers) || plan.route == CombineRoute::direct,
                "[all_reduce] half of a ring: a launch has both halves, or is direct");
  check_all_reduce(view);
  if (plan.edge[plan.ranks] == 0) return;
  AllReduceRun run{.view = view,
                   .plan = plan,
                   .launched = {},
                   .packed = is_packed(view, itemsize(call.dtype)),
                   .reduces = call.reduces,
                   .gathers = call.gathers,
                   .scale = call.scale,
                   .wait_nanoseconds = static_cast<std::uint64_t>(1e9 * seconds)};
  std::copy(launched.begin(), launched.end(), run.launched);
  launch<Blocks::all_at_once>("all_reduce", device, kernel_of(call.dtype, call.op, plan.route),
                              static_cast<unsigned>(count * plan.blocks), kBlockThreads, 0, run);
}

void load_all_reduce(const PeerCall& call, Device device) {
  const LaunchGate::Call loads;
  blocks_at_once(device, reinterpret_cast<const void*>(kernel_of(call.dtype, call.op, call.route)),
                 kBlockThreads, 0);
}

}  // namespace ringlet::cuda
