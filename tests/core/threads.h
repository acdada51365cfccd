// Results on several numbers of threads.
#pragma once

#include <doctest/doctest.h>

#include "ringlet/core/threads/parallel.h"

namespace ringlet {

/// Checks that body() is the same on one thread and on four; returns it.
template <class Body>
auto on_any_threads(Body body) {
  const int before = threads_per_device();
  set_threads_per_device(1);
  const auto one = body();
  set_threads_per_device(4);
  const auto four = body();
  set_threads_per_device(before);
  CHECK((one == four));
  return one;
}

}  // namespace ringlet
