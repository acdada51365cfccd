// Functions that all kernels call: CPU files of each instruction set, and CUDA.
#pragma once

// Always inlined: kernel files must not emit symbols that instruction sets would share.
#if defined(__CUDACC__)
#define RINGLET_HOST_DEVICE __host__ __device__ __forceinline__
#else
#define RINGLET_HOST_DEVICE inline __attribute__((always_inline))
#endif
