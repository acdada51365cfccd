// Embedding: rows of a table by id.
#pragma once

#include "ringlet/autograd/functions/embedding.h"
#include "ringlet/core/ops/random.h"
#include "ringlet/nn/module.h"

namespace ringlet::nn {

/// ids (T) i32 -> (T, size); weights start as normal(0, 1), as in PyTorch.
class Embedding final : public Layer<Embedding> {
 public:
  Embedding(std::int64_t rows, std::int64_t size)
      : weight(register_parameter("weight", normal({rows, size}))) {}
  const char* kind() const override { return "Embedding"; }
  Variable forward(const Tensor& ids) { return autograd::embedding(weight, ids); }

  Parameter weight;  // (rows, size)
};

}  // namespace ringlet::nn
