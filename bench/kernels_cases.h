// Ops to measure: those of one training step of a sentence encoder, and products of linear layers.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "ringlet/core/ops/matmul.h"
#include "ringlet/models/batch.h"
#include "ringlet/models/config.h"

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

/// "OpenBLAS" (f32 only) and "oneDNN" on `threads` threads, if they were found.
/// `product` outlives them.
std::vector<Peer> product_peers(Product& product, int threads);

/// An op and its inputs. Outputs stored in inputs (an optimizer's) are returned too.
struct KernelWork {
  std::vector<Tensor> inputs;
  std::function<std::vector<Tensor>(std::vector<Tensor>& inputs)> run;
  std::shared_ptr<Product> product = nullptr;  // the same for other libraries
};

struct KernelCase {
  std::string name;    // "model/dtype/op"
  std::int64_t calls;  // per step; 0: fused into other ops there
  std::function<KernelWork()> prepare;
};

/// A step with SoftmaxLoss on this batch of pairs, on the batch's device, which must be the
/// default; activations in `dtype`, parameters f32.
std::vector<KernelCase> step_cases(const std::string& model, const models::EncoderConfig& config,
                                   const models::PackedBatch& batch, DType dtype, double dropout);

/// The layers H -> H, H -> 4H and 4H -> H for these numbers of tokens; forms "NT" (forward), "NN"
/// (the input's gradient) and "TN" (the weight's).
std::vector<KernelCase> product_cases(std::int64_t hidden, const std::vector<std::int64_t>& tokens,
                                      DType dtype);

}  // namespace ringlet::bench
