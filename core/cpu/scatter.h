// Writes elements or rows to the positions that an index gives, in order.
#pragma once

#include "ringlet/core/cpu/dispatch.h"
#include "ringlet/core/cpu/index_elements.h"
#include "ringlet/core/threads/parallel.h"

namespace ringlet::cpu::RINGLET_ISA {
namespace {

// Calls body(o, begin, end) for ranges of columns of the outer blocks, on the device's threads. The
// ranges are disjoint, so every element receives its rows in order.
template <class Args, class Body>
void for_columns(const Args& args, std::int64_t itemsize, Device device, Body&& body) {
  parallel_for(device, args.outer * args.inner, kGrainBytes / (args.n * itemsize) + 1,
               [&](std::int64_t begin, std::int64_t end) {
                 while (begin < end) {
                   const std::int64_t o = begin / args.inner;
                   const std::int64_t stop =
                       end < (o + 1) * args.inner ? end : (o + 1) * args.inner;
                   body(o, begin - o * args.inner, stop - o * args.inner);
                   begin = stop;
                 }
               });
}

// Columns [begin, end) of one outer block, rows in order.
template <class T, class Index>
void add_rows(const ScatterAddArgs& args, T* out, const T* source, const Index* index,
              std::int64_t begin, std::int64_t end) {
  for (std::int64_t j = 0; j < args.n; ++j) {
    T* to = out + static_cast<std::int64_t>(index[j]) * args.inner;
    const T* from = source + j * args.inner;
    for_vectors<T>(end - begin, [&](std::int64_t i, std::int64_t count) {
      const std::int64_t at = begin + i;
      store_at(to, at, count, load_at(to, at, count) + load_at(from, at, count));
    });
  }
}

template <class T, class Index>
void add_elements(const ScatterAddArgs& args, T* out, const T* source, const Index* index,
                  std::int64_t begin, std::int64_t end) {
  for (std::int64_t j = 0; j < args.n; ++j)
    for (std::int64_t i = begin; i < end; ++i) {
      T& to = out[static_cast<std::int64_t>(index[j * args.inner + i]) * args.inner + i];
      to = T(static_cast<scalar_t<T>>(to) + static_cast<scalar_t<T>>(source[j * args.inner + i]));
    }
}

template <class T, class Index>
void scatter_add_as(const ScatterAddArgs& args, Device device) {
  const auto* index = static_cast<const Index*>(args.index);
  const auto* source = static_cast<const T*>(args.source);
  auto* out = static_cast<T*>(args.out);
  // All indices are checked before the first sum: a bad one leaves `out` unchanged.
  const std::int64_t indices = args.whole_rows ? args.n : args.outer * args.n * args.inner;
  for (std::int64_t i = 0; i < indices; ++i)
    checked(args.whole_rows ? "index_add_" : "scatter_add_", index[i], args.out_n);
  for_columns(args, static_cast<std::int64_t>(sizeof(T)), device,
              [&](std::int64_t o, std::int64_t begin, std::int64_t end) {
                T* block = out + o * args.out_n * args.inner;
                const T* rows = source + o * args.n * args.inner;
                if (args.whole_rows) {
                  add_rows(args, block, rows, index, begin, end);
                } else {
                  add_elements(args, block, rows, index + o * args.n * args.inner, begin, end);
                }
              });
}

void scatter_add(const ScatterAddArgs& args, Device device) {
  dispatch_floating("scatter_add", args.dtype, [&]<class T>() {
    dispatch_index(args.index_dtype,
                   [&]<class Index>() { scatter_add_as<T, Index>(args, device); });
  });
}

template <class T, class Index>
void scatter_as(const ScatterArgs& args, Device device) {
  const auto* index = static_cast<const Index*>(args.index);
  const auto* source = static_cast<const T*>(args.source);
  auto* out = static_cast<T*>(args.out);
  // As in scatter_add: a bad index leaves `out` unchanged.
  const std::int64_t rows = args.n * args.inner;
  for (std::int64_t i = 0; i < args.outer * rows; ++i) checked("scatter_", index[i], args.out_n);
  for_columns(args, static_cast<std::int64_t>(sizeof(T)), device,
              [&](std::int64_t o, std::int64_t begin, std::int64_t end) {
                T* block = out + o * args.out_n * args.inner;
                for (std::int64_t j = 0; j < args.n; ++j)
                  for (std::int64_t i = begin; i < end; ++i) {
                    const std::int64_t at = o * rows + j * args.inner + i;
                    block[static_cast<std::int64_t>(index[at]) * args.inner + i] = source[at];
                  }
              });
}

void scatter(const ScatterArgs& args, Device device) {
  dispatch_word(args.itemsize, [&]<class T>() {
    dispatch_index(args.index_dtype, [&]<class Index>() { scatter_as<T, Index>(args, device); });
  });
}

}  // namespace
}  // namespace ringlet::cpu::RINGLET_ISA
