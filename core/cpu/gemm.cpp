#include "ringlet/core/cpu/gemm_panels.h"
#include "ringlet/core/cpu/gemm_product.h"
#include "ringlet/core/cpu/simd.h"
#include "ringlet/core/ops/matmul.h"

namespace ringlet::cpu::RINGLET_ISA {
namespace {

using Index = std::int64_t;

template <class S>
using NumberKernel = PanelKernel<MultiplyAdd<S>, NumberPacking<S>>;

DType counts_as(const GemmOperand& x) { return x.rounded ? DType::bf16 : x.dtype; }

// The unit for these operands, if there is one.
GemmUnit unit_of(const GemmOperand& a, const GemmOperand& b) {
  if (counts_as(a) != counts_as(b)) return nullptr;
  if (counts_as(a) == DType::bf16) return gemm_units.bf16;
  switch (matmul_precision()) {
    case MatmulPrecision::medium:
      return gemm_units.bf16;
    case MatmulPrecision::high:
      return gemm_units.high;
    default:
      return nullptr;
  }
}

// ---- plain results ------------------------------------------------------------------------

struct Output {
  void* c;
  Index ldc;
  double beta;
};

template <class T, class Out>
void write_block(const void* context, const GemmBlock<T>& block) {
  const Output& out = *static_cast<const Output*>(context);
  const auto beta = splat(static_cast<T>(out.beta));
  for (Index i = 0; i < block.rows; ++i) {
    const T* from = block.data + i * block.ld;
    Out* to = static_cast<Out*>(out.c) + (block.row + i) * out.ldc + block.column;
    for_vectors<Out>(block.columns, [&](Index j, Index count) {
      const auto value = load_at(from, j, count);
      store_at(to, j, count, out.beta == 0 ? value : fma(beta, load_at(to, j, count), value));
    });
  }
}

}  // namespace

void gemm(Device device, const GemmProduct<float>& product) {
  if (const GemmUnit unit = unit_of(product.a, product.b)) return unit(device, product);
  multiply_blocked<NumberKernel<float>>(device, product);
}

void gemm(Device device, const GemmProduct<double>& product) {
  multiply_blocked<NumberKernel<double>>(device, product);
}

void gemm(Device device, Index m, Index n, Index k, const GemmOperand& a, const GemmOperand& b,
          double beta, void* c, DType c_dtype, Index ldc) {
  const Output out{c, ldc, beta};
  if (c_dtype == DType::f64)
    return gemm(device, GemmProduct<double>{m, n, k, a, b, {write_block<double, double>, &out}});
  const auto write =
      c_dtype == DType::bf16 ? write_block<float, bfloat16> : write_block<float, float>;
  gemm(device, GemmProduct<float>{m, n, k, a, b, {write, &out}});
}

}  // namespace ringlet::cpu::RINGLET_ISA
