// Products with timed algorithms, on a GPU: build/tests/cuda/cuda_tests --device cuda.
#include <doctest/doctest.h>

#include "on_gpu.h"
#include "ringlet/core/graph.h"
#include "ringlet/core/ops/matmul.h"
#include "ringlet/core/ops/random.h"
#include "ringlet/cuda/info.h"

using namespace ringlet;

TEST_CASE("cuda: timing a product leaves its bits, and is done once") {
  if (skipped()) return;
  const GeneratorGuard guard({.seed = 6});
  for (const DType dtype : {DType::f32, DType::bf16})
    for (const MatmulOptions form : {MatmulOptions{}, MatmulOptions{.trans_b = true}}) {
      // A shape of no other case.
      const Tensor a = normal({328, 456}).to(dtype), b = normal({456, 456}).to(dtype);
      const Tensor before = matmul(a, b, form);
      const int timed = cuda::product_timings(default_device()).products;
      const ShapesRecur recur;
      CHECK(matmul(a, b, form).to(DType::f32).to_vector() ==
            before.to(DType::f32).to_vector());  // this call times
      CHECK(matmul(a, b, form).to(DType::f32).to_vector() == before.to(DType::f32).to_vector());
      const cuda::ProductTimings now = cuda::product_timings(default_device());
      CHECK(now.products == timed + 1);  // cuBLASLt has several algorithms for such a shape
      const int added = now.products - timed;
      MESSAGE(added, " timed; so far ", now.alike, " of ", now.choices,
              " algorithms have the first one's bits");
    }
}
