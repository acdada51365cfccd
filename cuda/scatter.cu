// Writing to places that an index names, several elements to one place in the source's order: the
// first and the last element of each place are found by integer atomics, whose order does not
// matter; then one thread of each place adds what lies between.
#include "ringlet/cuda/scatter.h"

#include "ringlet/cuda/dispatch.h"
#include "ringlet/cuda/launch.h"
#include "ringlet/cuda/scatter_places.h"
#include "ringlet/cuda/types.cuh"
#include "ringlet/cuda/words.h"
#include "ringlet/cuda/workspace.h"

namespace ringlet::cuda {
namespace {

/// The least and the greatest j of the elements of each slot; undefined where there are none.
struct Occurrences {
  std::uint32_t* first;  // null where nobody asks
  std::uint32_t* last;
};

__global__ void mark_occurrences(Occurrences found, ScatterPlaces places, std::int64_t n) {
  grid_stride(n, [&](std::int64_t at) {
    const Scattered e = scattered(places, at);
    if (e.index < 0) return;
    const auto j = static_cast<std::uint32_t>(e.j);
    const std::int64_t slot = e.slot(places);
    if (found.first) atomicMin(found.first + slot, j);
    atomicMax(found.last + slot, j);
  });
}

template <class T>
__global__ void add_scattered(T* out, const T* source, ScatterPlaces places, Occurrences found,
                              std::int64_t n) {
  using S = compute_t<T>;
  grid_stride(n, [&](std::int64_t at) {
    const Scattered e = scattered(places, at);
    if (e.index < 0) return;
    const std::int64_t slot = e.slot(places);
    if (found.first[slot] != e.j) return;
    T& to = out[e.place(places)];
    // Rounded after each, as one after the other would be.
    to = from_compute<T>(add_in_order(
        places, e, std::int64_t{found.last[slot]}, to_compute(to), [&](S total, std::int64_t from) {
          return to_compute(from_compute<T>(total + to_compute(source[from])));
        }));
  });
}

/// The last one of each place is written.
template <class T>
__global__ void write_scattered(T* out, const T* source, ScatterPlaces places, Occurrences found,
                                std::int64_t n) {
  grid_stride(n, [&](std::int64_t at) {
    const Scattered e = scattered(places, at);
    if (e.index >= 0 && found.last[e.slot(places)] == e.j) out[e.place(places)] = source[at];
  });
}

/// Marks what lies where, then calls run(places, occurrences); the first ones only if `with_first`.
template <class Args, class Run>
void with_occurrences(const Args& args, bool whole_rows, bool with_first, Device device,
                      Run&& run) {
  RINGLET_CHECK(args.n <= UINT32_MAX, "[scatter] ", args.n, " elements along the axis");
  const ScatterPlaces places{IndexView(args.index, args.index_dtype), whole_rows, args.out_n,
                             Divider(args.n), Divider(args.inner)};
  const auto nbytes = static_cast<std::size_t>(places.slots(args.outer)) * sizeof(std::uint32_t);
  if (nbytes == 0) return;
  const Workspace memory(device, with_first ? 2 * nbytes : nbytes);
  auto* const last = memory.as<std::uint32_t>();
  const Occurrences found{with_first ? last + places.slots(args.outer) : nullptr, last};
  {
    const DeviceGuard guard(device);
    if (with_first)
      RINGLET_CUDA(cudaMemsetAsync(found.first, 0xff, nbytes, current_stream(device)));
    RINGLET_CUDA(cudaMemsetAsync(found.last, 0, nbytes, current_stream(device)));
  }
  // Of whole rows one column of one outer block says all.
  ScatterPlaces marked = places;
  if (whole_rows) marked.inner = Divider(1);
  const std::int64_t marks = whole_rows ? args.n : args.outer * args.n * args.inner;
  launch("mark_occurrences", device, mark_occurrences, grid_for(marks), kThreads, 0, found, marked,
         marks);
  run(places, found);
}

}  // namespace

void scatter_add(const ScatterAddArgs& args, Device device) {
  const std::int64_t n = args.outer * args.n * args.inner;
  dispatch_floating("scatter_add", args.dtype, [&]<class T>() {
    with_occurrences(args, args.whole_rows, true, device,
                     [&](const ScatterPlaces& places, const Occurrences& found) {
                       launch("scatter_add", device, add_scattered<T>, grid_for(n), kThreads, 0,
                              static_cast<T*>(args.out), static_cast<const T*>(args.source), places,
                              found, n);
                     });
  });
}

void scatter(const ScatterArgs& args, Device device) {
  const std::int64_t n = args.outer * args.n * args.inner;
  dispatch_word(static_cast<std::size_t>(args.itemsize), [&]<class T>() {
    with_occurrences(
        args, false, false, device, [&](const ScatterPlaces& places, const Occurrences& found) {
          launch("scatter", device, write_scattered<T>, grid_for(n), kThreads, 0,
                 static_cast<T*>(args.out), static_cast<const T*>(args.source), places, found, n);
        });
  });
}

}  // namespace ringlet::cuda
