// Matrix products by other libraries, if the build found them.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "ringlet/core/ops/matmul.h"

namespace ringlet::bench {

/// out (m, n) = op(a) op(b), all of one dtype; f32 or bf16.
struct Product {
  Tensor a;
  Tensor b;
  MatmulOptions options;
  Tensor out;
};

struct Peer {
  std::string name;
  std::function<void()> run;  // writes to `out` of its own product
};

/// "OpenBLAS" (f32 only) and "oneDNN" on `threads` threads, if they were found. `product` outlives
/// them.
std::vector<Peer> product_peers(Product& product, int threads);

}  // namespace ringlet::bench
