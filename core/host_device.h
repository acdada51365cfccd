// Functions that kernels of every kind call: CPU files of each instruction set, and CUDA.
#pragma once

// Always inlined, so that kernel files emit no symbol that instruction sets would share.
#if defined(__CUDACC__)
#define RINGLET_HOST_DEVICE __host__ __device__ __forceinline__
#else
#define RINGLET_HOST_DEVICE inline __attribute__((always_inline))
#endif
