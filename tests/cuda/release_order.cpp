#include "ringlet/cuda/caching_allocator.h"

#include <doctest/doctest.h>

#include <initializer_list>

namespace ringlet::cuda {
namespace {

TEST_CASE("a block goes back behind its last use, without an event across a capture's edge") {
  for (const bool of_graphs : {false, true}) {
    CAPTURE(of_graphs);
    for (const bool captured : {false, true})
      CHECK(release_order(true, captured, captured, of_graphs) == ReleaseOrder::at_once);
    CHECK(release_order(false, false, false, of_graphs) == ReleaseOrder::behind_event);
    CHECK(release_order(false, true, false, of_graphs) == ReleaseOrder::behind_capture);
    CHECK(release_order(false, false, true, of_graphs) == ReleaseOrder::behind_capture);
  }
  CHECK(release_order(false, true, true, /*of_graphs=*/true) == ReleaseOrder::behind_event);
  CHECK(release_order(false, true, true, /*of_graphs=*/false) == ReleaseOrder::behind_capture);
}

}  // namespace
}  // namespace ringlet::cuda
