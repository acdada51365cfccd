#include "ringlet/core/ops/cross_entropy.h"

#include "ringlet/core/device/dispatch.h"
#include "ringlet/cuda/bad_input.h"
#include "ringlet/cuda/launch.h"
#include "ringlet/cuda/rows.cuh"
#include "ringlet/cuda/workspace.h"

namespace ringlet::cuda {
namespace {

template <class Args>
__device__ __forceinline__ std::int64_t label_of(const Args& args, std::int64_t row) {
  return args.label_dtype == DType::i64 ? static_cast<const std::int64_t*>(args.labels)[row]
                                        : static_cast<const std::int32_t*>(args.labels)[row];
}

struct CrossEntropyRows : CrossEntropyArgs {
  double* losses;  // (rows)
  BadInputReport report;
};

template <class T, class Team>
__global__ void __launch_bounds__(kThreads) cross_entropy_rows(CrossEntropyRows args) {
  using S = compute_t<T>;
  for_team_rows<Team>(args.rows, [&](std::int64_t row) {
    const T* const x = static_cast<const T*>(args.logits) + row * args.classes;
    const S largest = row_max<Team>(x, args.classes);
    const S sum = row_exp_sum<Team>(x, args.classes, largest);
    // In f64 for every type, as on the CPU.
    const S log_sum = static_cast<S>(::log(static_cast<double>(sum)));
    if (team_lane<Team>() > 0) return;
    S* const lse = static_cast<S*>(args.lse) + 2 * row;
    lse[0] = largest;
    lse[1] = sum;
    const std::int64_t label = label_of(args, row);
    const bool known = label >= 0 && label < args.classes;
    if (!known) args.report(BadInputKind::label, row, label, args.classes);
    // Large logits cancel before the small logarithm is added.
    const S loss = known ? (largest - to_compute(x[label])) + log_sum : static_cast<S>(NAN);
    args.losses[row] = static_cast<double>(loss);
  });
}

// One block: the rows' losses, every kSumThreads-th to a thread, and then the threads' sums.
constexpr int kSumThreads = 1024;

template <class S>
__global__ void __launch_bounds__(kSumThreads)
    sum_losses(S* loss, const double* losses, std::int64_t rows, double divisor) {
  __shared__ double parts[kWarp];
  double total = 0;
  for (std::int64_t row = threadIdx.x; row < rows; row += kSumThreads) total += losses[row];
  total = block_sum(total, parts);
  if (threadIdx.x == 0) *loss = static_cast<S>(total / divisor);
}

template <class T>
void cross_entropy(const CrossEntropyArgs& args, Device device) {
  const Workspace losses(device, static_cast<std::size_t>(args.rows) * sizeof(double));
  launch_rows("cross_entropy", device, cross_entropy_rows<T, WarpTeam>,
              cross_entropy_rows<T, BlockTeam>, args.rows, args.classes,
              CrossEntropyRows{args, losses.as<double>(), BadInputReport(device)});
  launch("cross_entropy", device, sum_losses<compute_t<T>>, 1, kSumThreads, 0,
         static_cast<compute_t<T>*>(args.loss), losses.as<double>(), args.rows, args.divisor);
}

template <class T, class Team>
__global__ void __launch_bounds__(kThreads)
    cross_entropy_backward_rows(CrossEntropyBackwardArgs args) {
  using S = compute_t<T>;
  const S factor = static_cast<S>(*static_cast<const S*>(args.grad) / args.divisor);
  for_team_rows<Team>(args.rows, [&](std::int64_t row) {
    const T* const x = static_cast<const T*>(args.logits) + row * args.classes;
    T* const out = static_cast<T*>(args.grad_logits) + row * args.classes;
    const S* const lse = static_cast<const S*>(args.lse) + 2 * row;
    const S largest = lse[0], share = factor / lse[1];
    const std::int64_t label = label_of(args, row);
    const bool known = label >= 0 && label < args.classes;
    for_columns<Team>(args.classes, [&](std::int64_t c) {
      const S p = ::exp(to_compute(x[c]) - largest) * share;
      const S gradient = c == label ? p - factor : p;
      out[c] = from_compute<T>(known ? gradient : static_cast<S>(NAN));
    });
  });
}

template <class T>
void cross_entropy_backward(const CrossEntropyBackwardArgs& args, Device device) {
  launch_rows("cross_entropy_backward", device, cross_entropy_backward_rows<T, WarpTeam>,
              cross_entropy_backward_rows<T, BlockTeam>, args.rows, args.classes, args);
}

}  // namespace

void register_cross_entropy() {
  RINGLET_SET_FLOATING(cuda, cross_entropy);
  RINGLET_SET_FLOATING(cuda, cross_entropy_backward);
}

}  // namespace ringlet::cuda
