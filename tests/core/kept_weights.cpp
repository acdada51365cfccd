// Cached packed forms of unchanged weights: the bits of a fresh product, after any write to the
// weight.
#include <doctest/doctest.h>

#include <functional>

#include "../device.h"
#include "ringlet/core/base/error.h"
#include "ringlet/core/ops/elementwise.h"
#include "ringlet/core/ops/matmul.h"
#include "ringlet/core/ops/optimizer.h"
#include "ringlet/core/ops/random.h"
#include "ringlet/core/tensor/dlpack.h"
#include "ringlet/core/threads/parallel.h"

using namespace ringlet;
using Floats = std::vector<float>;

namespace {

std::size_t kept_bytes() { return memory_stats({}).sidecars; }

Floats kept(const Tensor& x, const Tensor& weight) {
  return linear(x, weight, {}, WeightUse::kept).to_vector();
}

// The product with a copy of the weight, which has no cached form.
Floats fresh(const Tensor& x, const Tensor& weight) {
  return linear(x, weight.clone()).to_vector();
}

/// An arena of two weights, after a bias that is never packed.
struct Parameters {
  Tensor arena = normal({5 + 40 * 30 + 50 * 40});
  Tensor first = arena.slice(5, 5 + 40 * 30).view({40, 30});
  Tensor second = arena.slice(5 + 40 * 30, arena.numel()).view({50, 40});
  Tensor x = normal({7, 30});

  // Uses both until they are cached, and checks every use.
  void check_uses(int uses = 3) const {
    const Floats expected = fresh(x, first);
    const Tensor y = linear(x, first);
    const Floats behind = fresh(y, second);
    for (int use = 0; use < uses; ++use) {
      CAPTURE(use);
      CHECK(kept(x, first) == expected);
      CHECK(kept(y, second) == behind);
    }
  }
};

}  // namespace

TEST_CASE_FIXTURE(OnCpu,
                  "a kept weight gives the bits of a fresh product, in every size and dtype") {
  const GeneratorGuard guard({.seed = 3});
  struct Sizes {
    std::int64_t m, n, k;
  };
  for (const Sizes& s : {Sizes{1, 1, 1},
                         {3, 5, 2},
                         {1, 400, 193},
                         {130, 385, 386},
                         {300, 49, 1000},
                         {4, 0, 3},
                         {0, 4, 3},
                         {2, 3, 0}})
    for (const auto& types : {std::pair{DType::f32, DType::f32},
                              {DType::f64, DType::f64},
                              {DType::bf16, DType::f32},
                              {DType::bf16, DType::bf16}})
      for (const int threads : {1, 3}) {
        CAPTURE(s.n);
        CAPTURE(s.k);
        CAPTURE(types.first);
        set_threads_per_device(threads);
        const Tensor x = normal({s.m, s.k}).to(types.first);
        const Tensor weight = normal({s.n, s.k}).to(types.second), bias = normal({s.n});
        Tensor pre, kept_pre;
        const Floats expected = linear(x, weight).to_vector();
        const Floats activated = linear_gelu(x, weight, bias, pre).to_vector();
        for (int use = 0; use < 3; ++use) {
          CHECK(kept(x, weight) == expected);
          CHECK(linear_gelu(x, weight, bias, kept_pre, WeightUse::kept).to_vector() == activated);
          CHECK(kept_pre.to_vector() == pre.to_vector());
        }
        CHECK((kept_bytes() > 0) == (s.m * s.n * s.k > 0));
        CHECK(linear(x, weight).to_vector() == expected);
      }
  set_threads_per_device(0);
  CHECK(kept_bytes() == 0);
}

TEST_CASE_FIXTURE(
    OnCpu,
    "what is kept is counted, comes with the second use and goes with a write or the weight") {
  const std::size_t before = memory_stats({}).allocated;
  {
    Tensor weight = normal({96, 64});
    const Tensor x = normal({2, 64}), half = x.to(DType::bf16);
    linear(x, weight);
    linear(x, weight);
    linear(x, weight, {}, WeightUse::kept);
    CHECK(kept_bytes() == 0);
    linear(x, weight, {}, WeightUse::kept);
    const std::size_t once = kept_bytes();
    CHECK(once >= weight.nbytes());
    linear(x, weight, {}, WeightUse::kept);
    CHECK(kept_bytes() == once);
    for (int use = 0; use < 3; ++use) CHECK(kept(half, weight) == fresh(half, weight));
    CHECK(kept_bytes() >= once + weight.nbytes() / 2);  // another form
    const std::size_t in_use = memory_stats({}).allocated;
    const std::size_t both = kept_bytes();
    weight.fill_(1);
    CHECK(kept_bytes() == 0);
    CHECK(memory_stats({}).allocated + both <= in_use);
    for (int use = 0; use < 2; ++use) linear(x, weight, {}, WeightUse::kept);
    CHECK(kept_bytes() == once);
  }
  CHECK(kept_bytes() == 0);
  CHECK(memory_stats({}).allocated == before);
}

TEST_CASE_FIXTURE(OnCpu, "nothing is kept where memory is limited") {
  const Tensor weight = normal({40, 30}), x = normal({7, 30});
  set_memory_limit({}, std::size_t{1} << 40);
  for (int use = 0; use < 3; ++use) CHECK(kept(x, weight) == fresh(x, weight));
  CHECK(kept_bytes() == 0);
  set_memory_limit({}, 0);
}

TEST_CASE_FIXTURE(
    OnCpu, "weights packed before memory is limited stay in use, and the limit counts them") {
  const GeneratorGuard guard({.seed = 5});
  Tensor weight = normal({512, 384});
  const Tensor x = normal({7, 384}), other = normal({20, 30}), narrow = normal({3, 30});
  const Floats expected = fresh(x, weight);
  for (int use = 0; use < 2; ++use) CHECK(kept(x, weight) == expected);
  const std::size_t packed = kept_bytes();
  REQUIRE(packed >= weight.nbytes());

  // Room for activations, but less than the cached forms take.
  const std::size_t room = packed / 2, in_use = memory_stats({}).allocated;
  set_memory_limit({}, in_use + room);
  for (int use = 0; use < 3; ++use) {
    CHECK(kept(x, weight) == expected);
    CHECK(kept(narrow, other) == linear(narrow, other).to_vector());
  }
  CHECK(kept_bytes() == packed);
  // This write changes no version, so it shows that products use the cached form.
  auto* unseen = const_cast<float*>(weight.data<float>());
  const float first = unseen[0];
  unseen[0] = 1e6f;
  CHECK(kept(x, weight) == expected);
  unseen[0] = first;

  const auto count = static_cast<std::int64_t>(packed);
  CHECK_THROWS_WITH_AS(empty({count}, DType::u8),
                       str("[allocate] ", packed, " bytes on cpu:0: ", in_use,
                           " are in use, the limit is ", in_use + room)
                           .c_str(),
                       Error);
  set_memory_limit({}, in_use);
  CHECK_THROWS_WITH_AS(kept(x, weight),
                       str("[allocate] ", 7 * 512 * sizeof(float), " bytes on cpu:0: ", in_use,
                           " are in use, the limit is ", in_use)
                           .c_str(),
                       Error);
  CHECK(kept_bytes() == packed);
  weight.mutable_data<float>()[0] = first;  // the cached form is evicted and its memory freed
  CHECK(memory_stats({}).allocated == in_use - packed);
  CHECK(empty({count}, DType::u8).defined());
  for (int use = 0; use < 3; ++use) CHECK(kept(x, weight) == expected);
  CHECK(kept_bytes() == 0);
  set_memory_limit({}, 0);
}

TEST_CASE_FIXTURE(OnCpu, "no way of writing leaves old bits behind") {
  const GeneratorGuard guard({.seed = 4});
  Parameters p;
  Tensor grad = normal({p.arena.numel()}), m = zeros_like(p.arena), v = zeros_like(p.arena);
  const std::pair<const char*, std::function<void()>> writes[] = {
      {"fill_", [&] { p.first.fill_(0.25); }},
      {"copy_", [&] { p.first.copy_(normal(p.first.shape())); }},
      {"copy_, converted", [&] { p.second.copy_(normal(p.second.shape()).to(DType::f64)); }},
      {"a pointer", [&] { p.second.mutable_data<float>()[41] += 1; }},
      {"another view", [&] { p.arena.view({-1}).slice(3, 9).fill_(2); }},
      {"AdamW over the arena",
       [&] { adamw_(p.arena, grad, m, v, step_scalars(adamw_scalars(1e-3, 0, 1))); }},
      {"SGD over a shard",
       [&] {
         Tensor shard = p.arena.slice(1000, 2000), none;
         sgd_(shard, grad.slice(1000, 2000), none, step_scalars({0.1, 0}));
       }},
      {"an element-wise op", [&] { axpby(p.arena, 2, grad, 0.5); }},
      {"a product",
       [&] {
         matmul_into(p.first, normal({40, 3}), normal({3, 30}), {}, 1);
       }},
  };
  p.check_uses();
  for (const auto& way : writes) {
    CAPTURE(way.first);
    const Floats before = p.arena.to_vector();
    way.second();
    CHECK(p.arena.to_vector() != before);
    p.check_uses();
    CHECK(kept_bytes() > 0);
  }
}

TEST_CASE_FIXTURE(OnCpu, "nothing is kept of what another library can write") {
  Parameters p;
  p.check_uses();
  CHECK(kept_bytes() > 0);
  dlpack::DLManagedTensor* given = dlpack::to_dlpack(p.second);
  CHECK(kept_bytes() == 0);
  auto* theirs = static_cast<float*>(given->dl_tensor.data);
  for (int write = 0; write < 3; ++write) {
    theirs[17] += 1;  // changes no version
    p.check_uses(2);
  }
  const Tensor taken = dlpack::from_dlpack(given);
  theirs[18] += 1;
  for (int use = 0; use < 3; ++use) {
    theirs[19] += 1;
    CHECK(kept(normal({2, 40}), taken).size() == 100);
    CHECK(kept(p.second, taken) == fresh(p.second, taken));
  }
  CHECK(kept_bytes() == 0);
}
