#include "ringlet/cuda/product.h"

#include <array>
#include <cstring>
#include <mutex>

#include "ringlet/core/error.h"
#include "ringlet/core/graph.h"
#include "ringlet/core/recently_used.h"
#include "ringlet/cuda/graph.h"
#include "ringlet/cuda/info.h"
#include "ringlet/cuda/product_algorithm.h"
#include "ringlet/cuda/stream.h"
#include "ringlet/cuda/workspace.h"

namespace ringlet::cuda {
namespace {

constexpr int kTimedChoices = 8;
constexpr std::size_t kMostProducts = 4096;

struct Product {
  ProductDescriptors descriptors;
  cublasLtMatmulHeuristicResult_t choice{};
  bool possible = false;
  TimedOnce timed{};
};

std::uint32_t alignment_of(const void* pointer) {
  const auto address = reinterpret_cast<std::uintptr_t>(pointer) | kMostAlignment;
  return static_cast<std::uint32_t>(address & -address);
}

/// Inserts `first` in front and removes an equal algorithm.
void put_first(std::vector<cublasLtMatmulHeuristicResult_t>& choices,
               const cublasLtMatmulHeuristicResult_t& first) {
  std::erase_if(choices, [&](const auto& choice) {
    return std::memcmp(&choice.algo, &first.algo, sizeof(first.algo)) == 0;
  });
  choices.insert(choices.begin(), first);
}

// The products of one device.
class Products {
 public:
  ProductTimings timings() {
    const std::lock_guard lock(mutex_);
    return timings_;
  }
  bool run(const ProductKey& key, const ProductPointers& at, cudaStream_t stream) {
    if (is_due(key, stream)) time(key);
    // Descriptors store the address of the bias or the sums, so calls are serialised.
    const std::lock_guard lock(mutex_);
    Product& product = find(key);
    if (!product.possible) return false;
    const Workspace workspace(key.device, product.choice.workspaceSize);
    product.descriptors.run(key, product.choice.algo, at, workspace.data(), workspace.nbytes(),
                            stream);
    return true;
  }

 private:
  static Product make(const ProductKey& key) {
    Product product{ProductDescriptors(key)};
    const auto choices = product.descriptors.algorithms(key, 1);
    product.possible = !choices.empty();
    if (product.possible) product.choice = choices.front();
    return product;
  }
  Product& find(const ProductKey& key) {
    return products_.find(key, [&] { return make(key); });
  }

  // Whether to time the product at this use.
  bool is_due(const ProductKey& key, cudaStream_t stream) {
    const std::lock_guard lock(mutex_);
    Product& product = find(key);
    return product.possible && product.timed.is_due(is_capturing(stream), shapes_recur());
  }

  // Meanwhile other threads run the first choice; its bits are the same.
  void time(const ProductKey& key) {
    const ProductDescriptors descriptors(key);
    auto choices = descriptors.algorithms(key, kTimedChoices);
    {
      const std::lock_guard lock(mutex_);
      put_first(choices, find(key).choice);
    }
    const TimedChoice found = time_choices(descriptors, key, choices);
    const std::lock_guard lock(mutex_);
    find(key).choice = choices[found.index];
    if (found.alike > 0) timings_.add(found, choices.size());
  }

  std::mutex mutex_;
  ProductTimings timings_;
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

ProductTimings product_timings(Device device) { return products_of(device).timings(); }

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
