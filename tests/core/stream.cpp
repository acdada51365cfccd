#include "ringlet/core/stream.h"

#include <doctest/doctest.h>

#include "ringlet/core/ops/elementwise.h"
#include "ringlet/core/ops/fill.h"

using namespace ringlet;
using Floats = std::vector<float>;

TEST_CASE("events order the work of two streams") {
  const Device device = default_device();
  const Stream side(device);
  const Event ready(device), done(device);
  for (int i = 0; i < 4; ++i) {
    Tensor x = full({1000}, i), y;
    ready.record();
    {
      const StreamGuard on(side);
      ready.make_wait();
      y = x + 1;
      done.record();
    }
    done.make_wait();
    x.fill_(-1);
    CHECK(y.to_vector() == Floats(1000, static_cast<float>(i + 1)));
    CHECK(done.done());
  }
}

TEST_CASE("memory that another stream has read is used again after the read") {
  const Device device = default_device();
  const Stream side(device);
  const Event ready(device);
  for (int i = 0; i < 4; ++i) {
    Tensor x = full({1000}, i), y;
    ready.record();
    {
      const StreamGuard on(side);
      ready.make_wait();
      y = x + 1;
      x = Tensor();
    }
    CHECK(full({1000}, -1).to_vector() == Floats(1000, -1));  // may take the memory of x
    const StreamGuard on(side);
    CHECK(y.to_vector() == Floats(1000, static_cast<float>(i + 1)));
    y = Tensor();
  }
}
