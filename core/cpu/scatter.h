// Writes elements or rows to the positions that an index gives, in order.
#pragma once

#include "ringlet/core/cpu/dispatch.h"
#include "ringlet/core/cpu/index_elements.h"

namespace ringlet::cpu::RINGLET_ISA {
namespace {

// Adds rows, or elements, to columns [begin, end) of one outer block, in order.
template <class T, class Index>
void add_rows(T* out, const T* source, const Index* index, std::int64_t n, std::int64_t inner,
              std::int64_t begin, std::int64_t end) {
  for (std::int64_t j = 0; j < n; ++j) {
    T* to = out + static_cast<std::int64_t>(index[j]) * inner;
    const T* from = source + j * inner;
    for_vectors<T>(end - begin, [&](std::int64_t i, std::int64_t count) {
      const std::int64_t at = begin + i;
      store_at(to, at, count, load_at(to, at, count) + load_at(from, at, count));
    });
  }
}
template <class T, class Index>
void add_elements(T* out, const T* source, const Index* index, std::int64_t n, std::int64_t inner,
                  std::int64_t begin, std::int64_t end) {
  for (std::int64_t j = 0; j < n; ++j)
    for (std::int64_t i = begin; i < end; ++i) {
      T& to = out[static_cast<std::int64_t>(index[j * inner + i]) * inner + i];
      to = T(static_cast<scalar_t<T>>(to) + static_cast<scalar_t<T>>(source[j * inner + i]));
    }
}

template <class T, class Index>
void copy_elements(T* out, const T* source, const Index* index, std::int64_t n, std::int64_t inner,
                   std::int64_t begin, std::int64_t end) {
  for (std::int64_t j = 0; j < n; ++j)
    for (std::int64_t i = begin; i < end; ++i)
      out[static_cast<std::int64_t>(index[j * inner + i]) * inner + i] = source[j * inner + i];
}

// Calls body for ranges of columns of the outer blocks, on the device's threads. The ranges are
// disjoint, so every element receives its rows in order. All indices are checked before the first
// write: a bad one leaves `out` unchanged.
template <class T, class Index, class Args>
void for_blocks(const char* op, const Args& args, bool whole_rows, Device device,
                decltype(add_rows<T, Index>)* body) {
  const auto* index = static_cast<const Index*>(args.index);
  const std::int64_t rows = args.n * args.inner;
  const std::int64_t indices = whole_rows ? args.n : args.outer * rows;
  for (std::int64_t i = 0; i < indices; ++i) checked(op, index[i], args.out_n);
  const std::int64_t grain = kGrainBytes / (args.n * std::int64_t{sizeof(T)}) + 1;
  for_columns(device, args.outer, args.inner, grain,
              [&](std::int64_t o, std::int64_t begin, std::int64_t end) {
                body(static_cast<T*>(args.out) + o * args.out_n * args.inner,
                     static_cast<const T*>(args.source) + o * rows,
                     whole_rows ? index : index + o * rows, args.n, args.inner, begin, end);
              });
}

void scatter_add(const ScatterAddArgs& args, Device device) {
  dispatch_floating("scatter_add", args.dtype, [&]<class T>() {
    dispatch_index(args.index_dtype, [&]<class Index>() {
      if (args.whole_rows)
        return for_blocks<T, Index>("index_add_", args, true, device, add_rows<T, Index>);
      for_blocks<T, Index>("scatter_add_", args, false, device, add_elements<T, Index>);
    });
  });
}

void scatter(const ScatterArgs& args, Device device) {
  dispatch_word(args.itemsize, [&]<class T>() {
    dispatch_index(args.index_dtype, [&]<class Index>() {
      for_blocks<T, Index>("scatter_", args, false, device, copy_elements<T, Index>);
    });
  });
}

}  // namespace
}  // namespace ringlet::cpu::RINGLET_ISA
