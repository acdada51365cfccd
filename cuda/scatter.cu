// Sums to places named by an index; elements of one place keep the source's order. Elements are
// sorted by place, stably, and the thread at the beginning of a run processes it.
#include <algorithm>

#include "ringlet/core/base/error.h"
#include "ringlet/core/device/dispatch.h"
#include "ringlet/cuda/launch.h"
#include "ringlet/cuda/scatter_places.h"
#include "ringlet/cuda/sorted_runs.h"
#include "ringlet/cuda/types.cuh"
#include "ringlet/cuda/workspace.h"

namespace ringlet::cuda {
namespace {

// The sorted data: places.sorted() keys, and the elements that have them.
struct Sorted {
  const std::uint32_t* keys;
  const std::int32_t* elements;
};

template <class Places>
__global__ void scatter_keys(std::uint32_t* keys, std::int32_t* elements, Places places) {
  grid_stride(places.sorted(), [&](std::int64_t i) {
    keys[i] = places.key(i);
    elements[i] = static_cast<std::int32_t>(i);
  });
}

template <class T, class Places>
__global__ void add_scattered(T* out, const T* source, Places places, Divider columns,
                              Sorted sorted) {
  using S = compute_t<T>;
  grid_stride(places.sorted() * places.columns, [&](std::int64_t at) {
    const ScatterRun run = scatter_run(places, columns, sorted.keys, at);
    if (run.begin == run.end) return;
    T& to = out[places.out(sorted.keys[run.begin], run.column)];
    S total = to_compute(to);
    // Rounded after each addition, as by sequential additions.
#pragma unroll 8
    for (std::int64_t k = run.begin; k < run.end; ++k)
      total = to_compute(from_compute<T>(
          total + to_compute(source[places.source(sorted.elements[k], run.column)])));
    to = from_compute<T>(total);
  });
}

// ---- launchers ----------------------------------------------------------------------------

/// Sorts, then adds.
template <class T, class Places>
void run(const char* name, const Places& places, const ScatterAddArgs& args, Device device) {
  const std::int64_t n = places.sorted();
  const Workspace memory(device, 4 * static_cast<std::size_t>(n) * sizeof(std::uint32_t));
  auto* const keys = memory.as<std::uint32_t>();
  auto* const elements = memory.as<std::int32_t>() + 2 * n;
  launch(name, device, scatter_keys<Places>, grid_for(n), kThreads, 0, keys, elements, places);
  sort_pairs(device, keys, keys + n, elements, elements + n, n, key_bits(places.keys() - 1));
  launch(name, device, add_scattered<T, Places>, grid_for(n * places.columns), kThreads, 0,
         static_cast<T*>(args.out), static_cast<const T*>(args.source), places,
         Divider(places.columns), Sorted{keys + n, elements + n});
}

void fail_size(const char* name, std::int64_t n, std::int64_t out_n) {
  fail("[", name, "] cannot sort ", n, " elements to ", out_n, " places of an axis");
}

template <class T>
void add_elements(const ScatterAddArgs& args, Device device) {
  if (args.outer * args.n * args.inner == 0 || args.out_n == 0) return;
  const ScatterBlock block = scatter_block(args.outer, args.n, args.inner, args.out_n);
  if (block.inners == 0) fail_size("scatter_add", args.n, args.out_n);
  for (std::int64_t o = 0; o < args.outer; o += block.outers)
    for (std::int64_t i = 0; i < args.inner; i += block.inners)
      run<T>("scatter_add",
             ScatterElements{IndexView(args.index, args.index_dtype), args.inner, o, i,
                             std::min(block.outers, args.outer - o), Divider(args.out_n),
                             Divider(args.n), Divider(std::min(block.inners, args.inner - i))},
             args, device);
}

template <class T>
void add_rows(const ScatterAddArgs& args, Device device) {
  const std::int64_t columns = args.outer * args.inner;
  if (columns * args.n == 0 || args.out_n == 0) return;
  if (scatter_block(1, args.n, 1, args.out_n).inners == 0)
    fail_size("index_add", args.n, args.out_n);
  run<T>("index_add",
         ScatterRows{IndexView(args.index, args.index_dtype), args.out_n, args.n, columns,
                     Divider(args.inner)},
         args, device);
}

}  // namespace

void scatter_add(const ScatterAddArgs& args, Device device) {
  dispatch_floating("scatter_add", args.dtype, [&]<class T>() {
    if (args.whole_rows) return add_rows<T>(args, device);
    add_elements<T>(args, device);
  });
}

}  // namespace ringlet::cuda
