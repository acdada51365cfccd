// Algorithms of products that bench/tune_products measured to be faster than cuBLASLt's first
// choice. Nothing is measured while a model trains: ranks with equal GPUs and libraries choose
// alike, so their bits are equal.
#pragma once

#include <cublasLt.h>

#include <cstddef>
#include <map>
#include <span>
#include <string_view>

#include "ringlet/core/device/device.h"

namespace ringlet::cuda {

/// A row of product_table.inc.
struct TunedProduct {
  std::string_view gpu;            // cudaDeviceProp's name
  std::size_t cublas;              // cublasLtGetVersion()
  std::string_view product;        // product_name() of product_algorithm.h
  cublasLtMatmulAlgo_t algorithm;  // cuBLASLt's own words, valid for this version only
};

/// Algorithms by product, of one GPU and one version.
using TunedAlgorithms = std::map<std::string_view, cublasLtMatmulAlgo_t>;

TunedAlgorithms tuned_for(std::span<const TunedProduct> rows, std::string_view gpu,
                          std::size_t cublas);

/// The rows of product_table.inc for this device and the loaded library.
const TunedAlgorithms& tuned_algorithms(Device device);

}  // namespace ringlet::cuda
