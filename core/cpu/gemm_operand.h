// Products: their operands, and the function that receives the result.
#pragma once

#include "ringlet/core/base/dtype.h"
#include "ringlet/core/device/device.h"

namespace ringlet {
class Storage;
}

namespace ringlet::cpu {

/// op(X): rows of `ld` elements in memory, transposed when `trans`.
struct GemmOperand {
  const void* data;
  DType dtype;  // f32, f64 or bf16; sums of bf16 are f32
  std::int64_t ld;
  bool trans;
  bool rounded = false;     // f32, to be rounded to bf16
  bool written_to = false;  // written during the product: copied first
  Storage* keep = nullptr;  // storage of `data`, if B's packed form may be cached with it
};

/// A finished block of op(A) op(B), still in cache: rows [row, row + rows) and columns
/// [column, column + columns) of C. T is float or double.
template <class T>
struct GemmBlock {
  const T* data;    // (rows, columns)
  std::int64_t ld;  // elements between rows of data
  std::int64_t row, column, rows, columns;
};

/// The function that receives the blocks; called once for each, from any thread of the device.
template <class T>
struct GemmEpilogue {
  void (*run)(const void* context, const GemmBlock<T>& block);
  const void* context;
};

/// op(A) (m, k) op(B) (k, n), in T.
template <class T>
struct GemmProduct {
  std::int64_t m, n, k;
  GemmOperand a, b;
  GemmEpilogue<T> epilogue;
};

// Products with instructions beyond those of a kernel set. Each is a unit with separate compiler
// flags; register_kernels() enters those in use.

using GemmUnit = void (*)(Device device, const GemmProduct<float>& product);

/// A null entry has no unit; FMA is used instead.
struct GemmUnits {
  GemmUnit bf16 = nullptr;  // bf16 operands; with MatmulPrecision::medium also f32, rounded
  GemmUnit high = nullptr;  // f32 operands with MatmulPrecision::high
};
extern GemmUnits gemm_units;

namespace avx512_bf16 {
void multiply_bf16(Device device, const GemmProduct<float>& product);
}
namespace amx {
void multiply_bf16(Device device, const GemmProduct<float>& product);
void multiply_high(Device device, const GemmProduct<float>& product);
}  // namespace amx

}  // namespace ringlet::cpu
