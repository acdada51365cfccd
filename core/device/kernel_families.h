// The families of kernels, which fill the table of core/device/kernel.h. A kind of device has a
// file of each family's name, which defines register_FAMILY().
#pragma once

#define RINGLET_KERNEL_FAMILIES(X) \
  X(attention)                     \
  X(combine)                       \
  X(convolution)                   \
  X(cosine_similarity)             \
  X(cross_entropy)                 \
  X(elementwise)                   \
  X(embedding)                     \
  X(fill)                          \
  X(index)                         \
  X(layer_norm)                    \
  X(matmul)                        \
  X(max_pool)                      \
  X(normalize)                     \
  X(optimizer)                     \
  X(pooling)                       \
  X(random)                        \
  X(reduce)                        \
  X(softmax)

#define RINGLET_DECLARE_FAMILY(family) void register_##family();
#define RINGLET_CALL_FAMILY(family) register_##family();
