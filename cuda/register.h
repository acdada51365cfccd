// The list of CUDA kernel families that exist. Each is defined in the file of its name.
#pragma once

#define RINGLET_CUDA_FAMILIES(X) \
  X(combine)                     \
  X(convolution)                 \
  X(cosine_similarity)           \
  X(elementwise)                 \
  X(attention)                   \
  X(fill)                        \
  X(index)                       \
  X(matmul)                      \
  X(max_pool)                    \
  X(normalize)                   \
  X(random)                      \
  X(reduce)                      \
  X(topk)
  X(cross_entropy)               \
  X(embedding)                   \
  X(fill)                        \
  X(layer_norm)                  \
  X(matmul)                      \
  X(optimizer)                   \
  X(pooling)                     \
  X(softmax)

#define RINGLET_DECLARE_CUDA_FAMILY(family) void register_##family();

namespace ringlet::cuda {

RINGLET_CUDA_FAMILIES(RINGLET_DECLARE_CUDA_FAMILY)

/// Fills the kernel tables.
void register_kernels();

}  // namespace ringlet::cuda
