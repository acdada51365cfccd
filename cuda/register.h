// The list of CUDA kernel families. Each is defined in the file of its name.
#pragma once

#define RINGLET_CUDA_FAMILIES(X) \
  X(attention)                   \
  X(combine)                     \
  X(convolution)                 \
  X(cosine_similarity)           \
  X(cross_entropy)               \
  X(elementwise)                 \
  X(embedding)                   \
  X(fill)                        \
  X(index)                       \
  X(layer_norm)                  \
  X(matmul)                      \
  X(max_pool)                    \
  X(normalize)                   \
  X(optimizer)                   \
  X(pooling)                     \
  X(random)                      \
  X(reduce)                      \
  X(softmax)

#define RINGLET_DECLARE_CUDA_FAMILY(family) void register_##family();

namespace ringlet::cuda {

RINGLET_CUDA_FAMILIES(RINGLET_DECLARE_CUDA_FAMILY)

/// Fills the kernel tables.
void register_kernels();

}  // namespace ringlet::cuda
