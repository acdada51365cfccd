// CUDA's scatter in parts, as it runs where sizes are beyond 31 bits: here small ones on the host,
// run by run, last first. The bits equal those of the CPU, which reads the source from its
// beginning.
#include "ringlet/cuda/scatter_places.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <numeric>
#include <vector>

#include "ringlet/core/ops/index.h"
#include "ringlet/core/ops/random.h"

namespace ringlet::cuda {
namespace {

/// Adds the elements of a part in the kernel's order; returns their number.
std::int64_t add_part(const ScatterElements& places, const Tensor& source, Tensor& out) {
  std::vector<std::int64_t> elements(static_cast<std::size_t>(places.sorted()));
  std::iota(elements.begin(), elements.end(), 0);
  std::stable_sort(elements.begin(), elements.end(),
                   [&](std::int64_t a, std::int64_t b) { return places.key(a) < places.key(b); });
  std::vector<std::uint32_t> keys;
  for (std::int64_t e : elements) keys.push_back(places.key(e));
  std::int64_t seen = 0;
  for (std::int64_t at = places.sorted() - 1; at >= 0; --at) {
    const ScatterRun run = scatter_run(places, Divider(1), keys.data(), at);
    if (run.begin == run.end) continue;
    float& to = out.mutable_data<float>()[places.out(keys[static_cast<std::size_t>(run.begin)])];
    for (std::int64_t k = run.begin; k < run.end; ++k, ++seen)
      to += source.data<float>()[places.source(elements[static_cast<std::size_t>(k)])];
  }
  return seen;
}

}  // namespace

TEST_CASE("cuda scatter_add: sums are in the source's order, however much is sorted at once") {
  struct Sizes {
    std::int64_t outer, n, inner, out_n;
  };
  for (const Sizes& s : {Sizes{1, 50, 1, 7}, {3, 40, 5, 6}, {2, 30, 4, 1}, {2, 1, 4, 3}})
    for (const ScatterBlock& block : {ScatterBlock{1, 1}, {1, 2}, {1, s.inner}, {2, s.inner}}) {
      const Shape shape{s.outer, s.n, s.inner};
      const Tensor index = uniform(shape, 0, static_cast<double>(s.out_n)).to(DType::i32);
      const Tensor source = normal(shape);
      Tensor out = normal({s.outer, s.out_n, s.inner});
      const Tensor expected = scatter_add(out, 1, index, source);
      std::int64_t seen = 0;
      for (std::int64_t o = 0; o < s.outer; o += block.outers)
        for (std::int64_t i = 0; i < s.inner; i += block.inners)
          seen += add_part({IndexView(index.bytes(), index.dtype()), s.inner, o, i,
                            std::min(block.outers, s.outer - o), Divider(s.out_n), Divider(s.n),
                            Divider(std::min(block.inners, s.inner - i))},
                           source, out);
      CHECK(seen == source.numel());  // each once
      CHECK(out.to_vector() == expected.to_vector());
    }
}

}  // namespace ringlet::cuda
