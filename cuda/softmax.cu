#include "ringlet/core/ops/softmax.h"

#include "ringlet/core/device/dispatch.h"
#include "ringlet/cuda/launch.h"
#include "ringlet/cuda/rows.cuh"

namespace ringlet::cuda {
namespace {

template <class T, class Team>
__global__ void __launch_bounds__(kThreads) softmax_rows(SoftmaxArgs args) {
  using S = compute_t<T>;
  for_team_rows<Team>(args.rows, [&](std::int64_t row) {
    const T* const x = static_cast<const T*>(args.in) + row * args.columns;
    T* const y = static_cast<T*>(args.out) + row * args.columns;
    const S largest = row_max<Team>(x, args.columns);
    const S total = row_exp_sum<Team>(x, args.columns, largest);
    // In f64 for every type, as on the CPU.
    const S log_total = args.log ? static_cast<S>(::log(static_cast<double>(total))) : S{0};
    for_columns<Team>(args.columns, [&](std::int64_t c) {
      const S shifted = to_compute(x[c]) - largest;
      y[c] = from_compute<T>(args.log ? shifted - log_total : ::exp(shifted) / total);
    });
  });
}

template <class T>
void softmax(const SoftmaxArgs& args, Device device) {
  launch_rows("softmax", device, softmax_rows<T, WarpTeam>, softmax_rows<T, BlockTeam>, args.rows,
              args.columns, args);
}

template <class T, class Team>
__global__ void __launch_bounds__(kThreads) softmax_backward_rows(SoftmaxBackwardArgs args) {
  using S = compute_t<T>;
  for_team_rows<Team>(args.rows, [&](std::int64_t row) {
    const T* const grad = static_cast<const T*>(args.grad) + row * args.columns;
    const T* const y = static_cast<const T*>(args.y) + row * args.columns;
    T* const grad_x = static_cast<T*>(args.grad_x) + row * args.columns;
    S total = 0;
    for_columns<Team>(args.columns, [&](std::int64_t c) {
      const S g = to_compute(grad[c]);
      total = args.log ? total + g : ::fma(g, to_compute(y[c]), total);
    });
    const S dot = team_sum<Team>(total);
    for_columns<Team>(args.columns, [&](std::int64_t c) {
      const S g = to_compute(grad[c]), p = to_compute(y[c]);
      grad_x[c] = from_compute<T>(args.log ? ::fma(-::exp(p), dot, g) : p * (g - dot));
    });
  });
}

template <class T>
void softmax_backward(const SoftmaxBackwardArgs& args, Device device) {
  launch_rows("softmax_backward", device, softmax_backward_rows<T, WarpTeam>,
              softmax_backward_rows<T, BlockTeam>, args.rows, args.columns, args);
}

}  // namespace

void register_softmax() {
  RINGLET_SET_FLOATING(cuda, softmax);
  RINGLET_SET_FLOATING(cuda, softmax_backward);
}

}  // namespace ringlet::cuda
