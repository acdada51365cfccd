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
  X(softmax)

#define RINGLET_DECLARE_FAMILY(family) void register_##family();
#define RINGLET_CALL_FAMILY(family) register_##family();
#define RINGLET_DECLARE_SET(isa)                                           \
  namespace isa {                                                          \
  RINGLET_CPU_FAMILIES(RINGLET_DECLARE_FAMILY)                             \
  inline void register_all() { RINGLET_CPU_FAMILIES(RINGLET_CALL_FAMILY) } \
  }

namespace ringlet::cpu {

RINGLET_DECLARE_SET(portable)
RINGLET_DECLARE_SET(avx2)
RINGLET_DECLARE_SET(avx512)

/// Fills the kernel tables for the instruction set in use.
void register_kernels();

}  // namespace ringlet::cpu
