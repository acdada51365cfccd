// Sidecars of a storage: other forms of its bytes, evicted when it is written.
#include "ringlet/core/tensor/storage.h"

#include <doctest/doctest.h>

#include <memory>
#include <vector>

#include "../device.h"
#include "ringlet/core/ops/matmul.h"
#include "ringlet/core/ops/random.h"

using namespace ringlet;
using Floats = std::vector<float>;

TEST_CASE_FIXTURE(OnCpu, "a form that is wanted at once is made at the first use of each version") {
  Tensor weight = normal({4, 3});
  int made = 0;
  const auto of_order = [&](std::uint64_t order) {
    const SidecarForm form{nullptr, 4, 3, DType::bf16, false, order};
    const auto make = [&] {
      ++made;
      return std::make_shared<Storage>(24, Device{});
    };
    return weight.storage()->sidecar(0, form, make, true);
  };
  const auto first = of_order(0);
  REQUIRE(first);
  CHECK(of_order(0) == first);
  CHECK(of_order(1) != first);  // made by another order of work
  CHECK(made == 2);
  weight.fill_(1);
  CHECK(of_order(0) != first);
  CHECK(made == 3);
}

TEST_CASE_FIXTURE(OnCpu, "a mirror is of the version and the stream that it was made for") {
  Tensor values = normal({8});
  Storage& storage = *values.storage();
  const std::size_t before = memory_stats({}).sidecars;
  const auto mirror = std::make_shared<Storage>(16, Device{});
  const int streams[2] = {};
  CHECK(!storage.wants_mirror());
  storage.want_mirror();
  CHECK(storage.wants_mirror());
  CHECK(!storage.mirror(nullptr));
  storage.set_mirror(mirror, &streams[0]);
  CHECK(storage.mirror(&streams[0]) == mirror);
  CHECK(!storage.mirror(&streams[1]));
  storage.drop_sidecars();
  CHECK(storage.mirror(&streams[0]) == mirror);
  values.fill_(1);
  CHECK(!storage.mirror(&streams[0]));
  CHECK(memory_stats({}).sidecars == before + 16);  // its memory is kept for the next one
  storage.set_mirror(mirror, &streams[0]);
  CHECK(storage.mirror(&streams[0]) == mirror);
  CHECK(memory_stats({}).sidecars == before + 16);
  storage.share_outside();
  CHECK(!storage.mirror(&streams[0]));
  storage.set_mirror(nullptr);
  CHECK(memory_stats({}).sidecars == before);
  {
    const Tensor other = normal({8});
    other.storage()->set_mirror(mirror);
    CHECK(memory_stats({}).sidecars == before + 16);
  }
  CHECK(memory_stats({}).sidecars == before);
}

TEST_CASE("a GPU keeps an f32 weight of bf16 products rounded, for all products until a write") {
  const Device device = default_device();
  if (device.type == DeviceType::cpu) {
    MESSAGE("skipped: the default device is a CPU");
    return;
  }
  Tensor weight = normal({96, 64});
  const Tensor x = normal({5, 64}).to(DType::bf16), grad = normal({5, 96}).to(DType::bf16);
  const Tensor rounded = weight.to(DType::bf16);
  const Floats y = linear(x, rounded).to_vector(), grad_x = matmul(grad, rounded).to_vector();
  for (int use = 0; use < 2; ++use) {
    CHECK(linear(x, weight).to_vector() == y);
    CHECK(matmul(grad, weight).to_vector() == grad_x);
    CHECK(memory_stats(device).sidecars == weight.nbytes() / 2);
  }
  weight.fill_(1);
  CHECK(memory_stats(device).sidecars == 0);
  CHECK(linear(x, weight).to_vector() == linear(x, weight.to(DType::bf16)).to_vector());

  Tensor over = normal({64, 64});
  const Tensor a = normal({64, 64}).to(DType::bf16);
  matmul_into(over, a, over);
  CHECK(matmul(a, over).to_vector() == matmul(a, over.clone()).to_vector());
}
