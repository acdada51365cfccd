// The list of CPU kernel families. Each is defined in the file with its name, once per instruction
// set (namespaces portable, avx2, avx512).
#pragma once

#define RINGLET_CPU_FAMILIES(X) \
  X(attention)                  \
  X(combine)                    \
  X(convolution)                \
  X(cosine_similarity)          \
  X(cross_entropy)              \
  X(elementwise)                \
  X(embedding)                  \
  X(fill)                       \
  X(index)                      \
  X(layer_norm)                 \
  X(matmul)                     \
  X(max_pool)                   \
  X(normalize)                  \
  X(optimizer)                  \
  X(pooling)                    \
  X(random)                     \
  X(reduce)                     \
  X(softmax)                    \
  X(topk)

#define RINGLET_DECLARE_FAMILY(family) void register_##family();

namespace ringlet::cpu {

namespace portable {
RINGLET_CPU_FAMILIES(RINGLET_DECLARE_FAMILY)
}
namespace avx2 {
RINGLET_CPU_FAMILIES(RINGLET_DECLARE_FAMILY)
}
namespace avx512 {
RINGLET_CPU_FAMILIES(RINGLET_DECLARE_FAMILY)
}

/// Fills the kernel tables for the instruction set in use.
void register_kernels();

}  // namespace ringlet::cpu
