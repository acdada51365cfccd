#include "ringlet/cuda/product.h"

#include <array>
#include <mutex>
#include <optional>
#include <utility>

#include "ringlet/core/base/error.h"
#include "ringlet/core/base/recently_used.h"
#include "ringlet/cuda/product_algorithm.h"
#include "ringlet/cuda/stream.h"
#include "ringlet/cuda/workspace.h"

namespace ringlet::cuda {
namespace {

constexpr std::size_t kMostProducts = 4096;

struct Product {
  ProductDescriptors descriptors;
  std::optional<cublasLtMatmulHeuristicResult_t> choice;  // none: the library has no algorithm
};

std::uint32_t alignment_of(const void* pointer) {
  const auto address = reinterpret_cast<std::uintptr_t>(pointer) | kMostAlignment;
  return static_cast<std::uint32_t>(address & -address);
}

// The products of one device.
class Products {
 public:
  bool run(const ProductKey& key, const ProductPointers& at, cudaStream_t stream) {
    // Descriptors store the address of the bias or the sums, so calls are serialised.
    const std::lock_guard lock(mutex_);
    Product& product = find(key);
    if (!product.choice) return false;
    const Workspace workspace(key.device, product.choice->workspaceSize);
    product.descriptors.run(key, product.choice->algo, at, workspace.data(), workspace.nbytes(),
                            stream);
    return true;
  }

 private:
  Product& find(const ProductKey& key) {
    return products_.find(key, [&] {
      ProductDescriptors descriptors(key);
      const auto choice = descriptors.algorithm(key, tuned_algorithms(key.device));
      return Product{std::move(descriptors), choice};
    });
  }

  std::mutex mutex_;
  RecentlyUsed<ProductKey, Product> products_{kMostProducts};
};

// Never destroyed: the driver may be unloaded first.
Products& products_of(Device device) {
  static auto* const products = new std::array<Products, kMostDevices>;
  return (*products)[static_cast<std::size_t>(device.index)];
}

// The part of the plan that the library needs.
MatmulPlan seen(MatmulPlan plan) {
  plan.cast_a = plan.cast_b = plan.adds_sums = plan.scratch = plan.finish = false;
  return plan;
}

}  // namespace

bool run_product(const MatmulPlan& plan, const ProductPointers& at, Device device) {
  const ProductKey key{seen(plan),
                       device,
                       plan.dtype == DType::f32 ? matmul_precision() : MatmulPrecision::highest,
                       alignment_of(at.left),
                       alignment_of(at.right),
                       alignment_of(at.out),
                       alignment_of(at.sums ? at.sums : at.bias)};
  const cudaStream_t stream = current_stream(device);
  const bool done = products_of(device).run(key, at, stream);
  RINGLET_CHECK(done || plan.has_epilogue(), "[matmul] cuBLASLt has no algorithm for ",
                plan.out.columns, " x ", plan.out.rows, " x ", plan.k, " of ", plan.dtype, " into ",
                plan.product, " on ", device);
  return done;
}

}  // namespace ringlet::cuda
