#include "ringlet/core/cpu/softmax.h"

#include "ringlet/core/cpu/scratch.h"
#include "ringlet/core/device/dispatch.h"
#include "ringlet/core/ops/softmax.h"

namespace ringlet::cpu::RINGLET_ISA {
namespace {

template <class T>
void softmax_row(const T* x, T* y, scalar_t<T>* terms, std::int64_t columns) {
  const scalar_t<T> total = row_exp_sum(x, columns, row_max(x, columns), terms);
  for_vectors<T>(columns, [&](std::int64_t i, std::int64_t count) {
    store_at(y, i, count, load_at(terms, i, count) / total);
  });
}

template <class T>
void log_softmax_row(const T* x, T* y, std::int64_t columns) {
  const scalar_t<T> largest = row_max(x, columns);
  const scalar_t<T> log_total = scalar_log(row_exp_sum(x, columns, largest));
  for_vectors<T>(columns, [&](std::int64_t i, std::int64_t count) {
    store_at(y, i, count, load_at(x, i, count) - largest - log_total);
  });
}

template <class T>
void softmax(const SoftmaxArgs& args, Device device) {
  const std::int64_t columns = args.columns;
  parallel_for(device, args.rows, kExpGrain / columns + 1,
               [&](std::int64_t begin, std::int64_t end) {
                 const Scratch terms(static_cast<std::size_t>(columns) * sizeof(scalar_t<T>));
                 for (std::int64_t row = begin; row < end; ++row) {
                   const T* x = static_cast<const T*>(args.in) + row * columns;
                   T* y = static_cast<T*>(args.out) + row * columns;
                   args.log ? log_softmax_row(x, y, columns)
                            : softmax_row(x, y, terms.template as<scalar_t<T>>(), columns);
                 }
               });
}

template <class T>
void backward_row(const T* grad, const T* y, T* grad_x, std::int64_t columns, bool log) {
  vector_t<T> total{};
  for_vectors<T>(columns, [&](std::int64_t i, std::int64_t count) {
    const auto g = load_at(grad, i, count);
    total = log ? total + g : fma(g, load_at(y, i, count), total);
  });
  const scalar_t<T> dot = sum(total);
  for_vectors<T>(columns, [&](std::int64_t i, std::int64_t count) {
    const auto g = load_at(grad, i, count), p = load_at(y, i, count);
    store_at(grad_x, i, count, log ? fma(-exp(p), splat(dot), g) : p * (g - dot));
  });
}

template <class T>
void softmax_backward(const SoftmaxBackwardArgs& args, Device device) {
  for_each(device, args.rows, kExpGrain / args.columns + 1, [&](std::int64_t row) {
    const std::int64_t at = row * args.columns;
    backward_row(static_cast<const T*>(args.grad) + at, static_cast<const T*>(args.y) + at,
                 static_cast<T*>(args.grad_x) + at, args.columns, args.log);
  });
}

}  // namespace

void register_softmax() {
  RINGLET_SET_FLOATING(cpu, softmax);
  RINGLET_SET_FLOATING(cpu, softmax_backward);
}

}  // namespace ringlet::cpu::RINGLET_ISA
