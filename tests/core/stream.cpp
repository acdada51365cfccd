#include "ringlet/core/device/stream.h"

#include <doctest/doctest.h>

#include "ringlet/core/ops/elementwise.h"

using namespace ringlet;
using Floats = std::vector<float>;

namespace {

/// x + 1, enqueued on `side` after the current stream's work so far; may free x there.
Tensor add_one(Tensor& x, const SideStream& side, bool frees = false) {
  const StreamEvent ready(default_device());
  ready.record();
  const StreamGuard on(side);
  ready.make_wait();
  const Tensor y = x + 1;
  if (frees) x = Tensor();
  return y;
}

}  // namespace

TEST_CASE("events order the work of two streams") {
  const Device device = default_device();
  const SideStream side(device);
  const StreamEvent done(device);
  for (int i = 0; i < 4; ++i) {
    Tensor x = full({1000}, i);
    const Tensor y = add_one(x, side);
    {
      const StreamGuard on(side);
      done.record();
    }
    done.make_wait();
    x.fill_(-1);
    CHECK(y.to_vector() == Floats(1000, static_cast<float>(i + 1)));
    CHECK(done.done());
  }
}

TEST_CASE("memory that another stream has read is used again after the read") {
  const SideStream side(default_device());
  for (int i = 0; i < 4; ++i) {
    Tensor x = full({1000}, i);
    Tensor y = add_one(x, side, /*frees=*/true);
    CHECK(full({1000}, -1).to_vector() == Floats(1000, -1));  // may take the memory of x
    const StreamGuard on(side);
    CHECK(y.to_vector() == Floats(1000, static_cast<float>(i + 1)));
    y = Tensor();
  }
}
