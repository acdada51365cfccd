#include "ringlet/cuda/product.h"

#include <map>
#include <memory>
#include <mutex>

#include "ringlet/core/error.h"
#include "ringlet/cuda/check.h"
#include "ringlet/cuda/product_algorithm.h"
#include "ringlet/cuda/stream.h"
#include "ringlet/cuda/workspace.h"

namespace ringlet::cuda {
namespace {

// Shapes that come this often are worth timing; batches of ever new lengths are not.
constexpr int kUsesBeforeTiming = 4;
constexpr int kTimedChoices = 8;
constexpr std::size_t kMostProducts = 4096;

struct Product {
  ProductDescriptors descriptors;
  cublasLtMatmulHeuristicResult_t choice{};
  bool possible = false;
  int uses = 0;
};

std::uint32_t alignment_of(const void* pointer) {
  const auto address = reinterpret_cast<std::uintptr_t>(pointer) | kMostAlignment;
  return static_cast<std::uint32_t>(address & -address);
}

bool is_captured(cudaStream_t stream) {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  RINGLET_CUDA(cudaStreamIsCapturing(stream, &status));
  return status != cudaStreamCaptureStatusNone;
}

class Products {
 public:
  bool run(const ProductKey& key, const ProductPointers& at, cudaStream_t stream) {
    const std::lock_guard lock(mutex_);  // descriptors hold the bias's address from call to call
    Product& product = find(key);
    if (!product.possible) return false;
    if (++product.uses == kUsesBeforeTiming) {
      if (is_captured(stream))
        --product.uses;
      else
        time(key, product);
    }
    const Workspace workspace(key.device, product.choice.workspaceSize);
    product.descriptors.run(key, product.choice.algo, at, workspace.data(), workspace.nbytes(),
                            stream);
    return true;
  }

 private:
  Product& find(const ProductKey& key) {
    const auto found = products_.find(key);
    if (found != products_.end()) return found->second;
    if (products_.size() >= kMostProducts) products_.clear();
    Product product{ProductDescriptors(key)};
    const auto choices = product.descriptors.algorithms(key, 1);
    product.possible = !choices.empty();
    if (product.possible) product.choice = choices.front();
    return products_.emplace(key, std::move(product)).first->second;
  }

  static void time(const ProductKey& key, Product& product) {
    product.choice = fastest_alike(product.descriptors, key, product.choice,
                                   product.descriptors.algorithms(key, kTimedChoices));
  }

  std::mutex mutex_;
  std::map<ProductKey, Product> products_;
};

}  // namespace

bool run_product(const MatmulPlan& plan, const ProductPointers& at, Device device) {
  static auto* const products = new Products;  // never destroyed: the driver may go first
  const ProductKey key{plan,
                       device,
                       plan.dtype == DType::f32 ? matmul_precision() : MatmulPrecision::highest,
                       alignment_of(at.left),
                       alignment_of(at.right),
                       alignment_of(at.out),
                       alignment_of(at.bias)};
  const bool done = products->run(key, at, current_stream(device));
  RINGLET_CHECK(done || plan.adds_bias, "[matmul] cuBLASLt has no algorithm for ", plan.out.columns,
                " x ", plan.out.rows, " x ", plan.k, " of ", plan.dtype, " into ", plan.product,
                " on ", device);
  return done;
}

}  // namespace ringlet::cuda
