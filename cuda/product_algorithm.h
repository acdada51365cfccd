// One product's descriptors in cuBLASLt, and its algorithm.
#pragma once

#include <cublasLt.h>

#include <cstddef>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ringlet/core/device/device.h"
#include "ringlet/cuda/cublas_lt.h"
#include "ringlet/cuda/matmul_plan.h"

namespace ringlet::cuda {

// Algorithms of products that bench/tune_products measured to be faster than cuBLASLt's first
// choice. Nothing is measured while a model trains: ranks with equal GPUs and libraries choose
// alike, so their bits are equal.

/// A row of product_table.inc.
struct TunedProduct {
  std::string_view gpu;            // cudaDeviceProp's name
  std::size_t cublas;              // cublasLtGetVersion()
  std::string_view product;        // product_name()
  cublasLtMatmulAlgo_t algorithm;  // cuBLASLt's own words, valid for this version only
};

/// Algorithms by product, of one GPU and one version.
using TunedAlgorithms = std::map<std::string_view, cublasLtMatmulAlgo_t>;

TunedAlgorithms tuned_for(std::span<const TunedProduct> rows, std::string_view gpu,
                          std::size_t cublas);

/// The rows of product_table.inc for this device and the loaded library.
const TunedAlgorithms& tuned_algorithms(Device device);

/// The key of a product: products with equal keys share an algorithm.
struct ProductKey {
  MatmulPlan plan;
  Device device;
  MatmulPrecision precision;
  std::uint32_t left_alignment;  // in bytes, a power of 2, at most kMostAlignment
  std::uint32_t right_alignment;
  std::uint32_t out_alignment;
  std::uint32_t vector_alignment;  // of the bias or the sums

  auto operator<=>(const ProductKey&) const = default;
};
/// Enough for the widest loads; a larger value would split one shape into many keys.
inline constexpr std::uint32_t kMostAlignment = 16;

/// Row-major, "NT 896x3072x768 bf16 to bf16, bias": transpositions, m x n x k, dtypes, epilogue.
/// Empty for products that the table never has: not of bf16, batches, added to their output, or
/// with less than kMostAlignment.
std::string product_name(const ProductKey& key);

/// The most scratch memory of an algorithm.
inline constexpr std::size_t kProductWorkspace = std::size_t{32} << 20;

/// cuBLASLt's descriptors for a key; move-only.
class ProductDescriptors {
 public:
  explicit ProductDescriptors(const ProductKey& key);

  /// The table's algorithm, if it has one that the library accepts, else the library's first
  /// choice; none if it has no algorithm.
  std::optional<cublasLtMatmulHeuristicResult_t> algorithm(const ProductKey& key,
                                                           const TunedAlgorithms& tuned) const;
  /// The library's choices, the first one first.
  std::vector<cublasLtMatmulHeuristicResult_t> choices(const ProductKey& key, int most) const;
  void run(const ProductKey& key, const cublasLtMatmulAlgo_t& algorithm, const ProductPointers& at,
           void* workspace, std::size_t workspace_nbytes, cudaStream_t stream) const;

 private:
  /// The algorithm with its workspace; none if the library refuses it.
  std::optional<cublasLtMatmulHeuristicResult_t> checked(
      const ProductKey& key, const cublasLtMatmulAlgo_t& algorithm) const;

  CublasLtOwner<cublasLtMatmulDesc_t> product_;
  CublasLtOwner<cublasLtMatrixLayout_t> left_;
  CublasLtOwner<cublasLtMatrixLayout_t> right_;
  CublasLtOwner<cublasLtMatrixLayout_t> out_;
};

/// Enqueues the product on the thread's stream of the device. If the library has no algorithm for
/// it: false and no work if it has an epilogue, else Error.
bool run_product(const MatmulPlan& plan, const ProductPointers& at, Device device);

}  // namespace ringlet::cuda
