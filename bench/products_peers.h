// Matrix products by other libraries, where the build found them.
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
  std::function<void()> run;  // into its own product's `out`
};

/// "OpenBLAS" (f32 alone) and "oneDNN" on `threads` threads, as far as they were found. `product`
/// outlives them.
std::vector<Peer> product_peers(Product& product, int threads);

}  // namespace ringlet::bench
