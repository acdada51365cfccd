// The operands of products, and the units that may compute them.
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

// Products with instructions beyond those of a kernel set. Each is a unit with separate compiler
// flags; register_kernels() enters those in use.

template <class T>
struct GemmProduct;  // gemm_product.h
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
