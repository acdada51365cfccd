// Products of bf16 tiles without AMX: packing, planes and blocks are the unit's, the tiles are
// emulated.
#define RINGLET_ISA emulated
#include "emulated_tiles.h"
#include "ringlet/core/cpu/gemm_tiles.h"
#undef RINGLET_ISA

#include <doctest/doctest.h>

#include <cmath>

#include "../device.h"
#include "../oracle.h"
#include "ringlet/core/cpu/isa.h"
#include "ringlet/core/ops/elementwise.h"
#include "ringlet/core/ops/matmul.h"
#include "ringlet/core/ops/random.h"

using namespace ringlet;
using cpu::emulated::EmulatedTiles;

namespace {

struct Copy {
  float* to;
  std::int64_t ld;
};
void copy_block(const void* context, const cpu::GemmBlock<float>& block) {
  const Copy& out = *static_cast<const Copy*>(context);
  for (std::int64_t i = 0; i < block.rows; ++i)
    std::copy_n(block.data + i * block.ld, block.columns,
                out.to + (block.row + i) * out.ld + block.column);
}

template <int planes>
Tensor multiply(const Tensor& a, const Tensor& b, MatmulOptions options) {
  const std::int64_t m = a.size(options.trans_a ? 1 : 0), k = a.size(options.trans_a ? 0 : 1);
  const std::int64_t n = b.size(options.trans_b ? 0 : 1);
  Tensor out = empty({m, n});
  const Copy copy{out.mutable_data<float>(), n};
  cpu::emulated::multiply_blocked<cpu::emulated::TileKernel<EmulatedTiles, planes>>(
      Device{}, {m,
                 n,
                 k,
                 {a.bytes(), a.dtype(), a.size(1), options.trans_a},
                 {b.bytes(), b.dtype(), b.size(1), options.trans_b},
                 {copy_block, &copy}});
  return out;
}

// The largest error relative to sum |a b| (k u + split). `split` is for the part that the planes
// omit; u for each addition, as the planes' magnitudes exceed |a b| by less than 1/32.
double share_of_bound(const Tensor& out, const Tensor& a, const Tensor& b, MatmulOptions options,
                      int products, double split) {
  const Tensor x = a.to(DType::f64), y = b.to(DType::f64);
  const auto exact = matmul(x, y, options).to_vector<double>();
  const auto magnitude = matmul(abs(x), abs(y), options).to_vector<double>();
  const auto got = out.to_vector<double>();
  const auto k = static_cast<double>(a.size(options.trans_a ? 0 : 1));
  // Sixteen additions within a tile, one of its halves, one per tile to the sum.
  const double additions = 17 + products * std::ceil(k / 32);
  double worst = 0;
  for (std::size_t i = 0; i < got.size(); ++i)
    worst = std::max(worst, std::abs(got[i] - exact[i]) /
                                ((additions * kF32 * 33 / 32 + split) * magnitude[i] + 1e-300));
  return worst;
}

const MatmulOptions kForms[] = {{}, {.trans_a = true}, {.trans_b = true}, {true, true}};

Tensor stored_normal(std::int64_t rows, std::int64_t columns, bool transposed) {
  return normal(transposed ? Shape{columns, rows} : Shape{rows, columns});
}

}  // namespace

TEST_CASE_FIXTURE(OnCpu, "a tile's product is what the manual says, to the bit") {
  std::uint32_t a[2 * cpu::emulated::kTilePairs] = {}, b[2 * cpu::emulated::kTilePairs] = {};
  float sums[32][32] = {};
  const auto bf16 = [](float x) {
    std::uint32_t bits;
    memcpy(&bits, &x, sizeof(bits));
    return bits >> 16;
  };
  const auto product = [&](float sum) {
    EmulatedTiles tiles;
    sums[0][0] = sum;
    tiles.load(sums[0], 32);
    tiles.multiply(a, b);
    tiles.store(sums[0], 32);
    return sums[0][0];
  };
  // Row 0, pairs 0 and 1, times column 0. Halves are summed separately: 1 + 2^-24 loses its last
  // bit, 2^-24 + 2^-24 in the other halves does not.
  b[0] = b[16] = bf16(1) | bf16(1) << 16;
  a[0] = bf16(1) | bf16(0x1p-24f) << 16;
  a[1] = bf16(0x1p-24f) | bf16(0x1p-24f) << 16;
  CHECK(product(0) == 1 + 0x1p-23f);
  CHECK(product(-1) == 0x1p-23f);
  // Denormal operands, sums and results are zero.
  a[0] = bf16(0x1p-127f);
  a[1] = 0;
  b[0] = bf16(0x1p100f);
  CHECK(product(0) == 0);
  a[0] = bf16(0x1p-100f);
  b[0] = bf16(0x1p-30f);
  CHECK(product(0) == 0);
  CHECK(product(0x1p-130f) == 0);
  CHECK(product(0x1p-126f) == 0x1p-126f);
}

TEST_CASE_FIXTURE(
    OnCpu, "products of tiles stay within the bounds of their planes, in every form and size") {
  const GeneratorGuard guard({.seed = 9});
  struct Sizes {
    std::int64_t m, n, k;
  };
  for (const Sizes& s :
       {Sizes{1, 1, 1}, {3, 5, 2}, {33, 31, 33}, {130, 70, 65}, {40, 400, 300}, {16, 16, 0}})
    for (const MatmulOptions& form : kForms) {
      CAPTURE(s.m);
      CAPTURE(s.k);
      const Tensor a = stored_normal(s.m, s.k, form.trans_a);
      const Tensor b = stored_normal(s.k, s.n, form.trans_b);
      const Tensor half_a = a.to(DType::bf16), half_b = b.to(DType::bf16);
      CHECK(share_of_bound(multiply<1>(half_a, half_b, form), half_a, half_b, form, 1, 0) <= 1);
      CHECK(multiply<1>(a, b, form).to_vector() == multiply<1>(half_a, half_b, form).to_vector());
      CHECK(share_of_bound(multiply<2>(a, b, form), a, b, form, 3, 3 * 0x1p-16) <= 1);
    }
}

TEST_CASE_FIXTURE(OnCpu, "bits of a product of tiles do not depend on the rows around it") {
  const GeneratorGuard guard({.seed = 10});
  const Tensor a = normal({150, 70}), b = normal({70, 40});
  const Tensor whole = multiply<2>(a, b, {});
  for (const std::int64_t row : {0, 31, 32, 127, 128, 149})
    CHECK(multiply<2>(a.slice(row, row + 1), b, {}).to_vector() == whole[row].to_vector());
}

TEST_CASE_FIXTURE(OnCpu, "planes hold what bf16 cannot, and what is not finite stays so") {
  const Tensor one = full({1, 1}, 1);
  const float large = 0x1.fffp127f;  // bf16 rounds it to infinity
  CHECK(multiply<2>(full({1, 1}, large), one, {}).item() == large);
  CHECK(multiply<2>(full({1, 1}, -large), one, {}).item() == -large);
  CHECK_FALSE(std::isfinite(multiply<1>(full({1, 1}, large), one, {}).item()));
  for (const double value : {HUGE_VAL, -HUGE_VAL, std::nan("")}) {
    CHECK_FALSE(std::isfinite(multiply<1>(full({1, 1}, value), one, {}).item()));
    CHECK_FALSE(std::isfinite(multiply<2>(full({1, 1}, value), one, {}).item()));
  }
}

TEST_CASE_FIXTURE(OnCpu, "AMX gives the bits of the emulated tiles") {
  if (cpu::isa() != cpu::Isa::amx) {
    MESSAGE("skipped: no AMX here, or RINGLET_ISA names another set");
    return;
  }
  const GeneratorGuard seeded(RandomGenerator{5, 0, 0});
  for (const auto& form : kForms) {
    const Tensor a = stored_normal(67, 200, form.trans_a);
    const Tensor b = stored_normal(200, 45, form.trans_b);
    const Tensor halves_a = a.to(DType::bf16), halves_b = b.to(DType::bf16);
    Tensor out = empty({67, 45});
    matmul_into(out, halves_a, halves_b, form);
    CHECK(out.to_vector() == multiply<1>(halves_a, halves_b, form).to_vector());
    set_matmul_precision(MatmulPrecision::high);
    const Tensor high = matmul(a, b, form);
    set_matmul_precision(MatmulPrecision::highest);
    CHECK(high.to_vector() == multiply<2>(a, b, form).to_vector());
  }
}
