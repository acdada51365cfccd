#include "ringlet/cuda/product_algorithm.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <mutex>
#include <optional>
#include <utility>

#include "ringlet/core/base/error.h"
#include "ringlet/core/base/recently_used.h"
#include "ringlet/cuda/check.h"
#include "ringlet/cuda/stream.h"
#include "ringlet/cuda/workspace.h"

namespace ringlet::cuda {
namespace {

cudaDataType_t data_type(DType dtype) {
  switch (dtype) {
    case DType::f32:
      return CUDA_R_32F;
    case DType::f64:
      return CUDA_R_64F;
    case DType::bf16:
      return CUDA_R_16BF;
    default:
      unsupported_dtype("matmul", dtype);
  }
}

cublasComputeType_t compute_type(DType dtype, MatmulPrecision precision) {
  if (dtype == DType::f64) return CUBLAS_COMPUTE_64F;
  if (dtype == DType::bf16 || precision == MatmulPrecision::highest) return CUBLAS_COMPUTE_32F;
  return CUBLAS_COMPUTE_32F_FAST_TF32;  // under medium, f32 operands are bf16 here
}

void set_product(cublasLtMatmulDesc_t product, cublasLtMatmulDescAttributes_t attribute,
                 const auto& value) {
  RINGLET_CUBLAS(
      cublas_lt().cublasLtMatmulDescSetAttribute(product, attribute, &value, sizeof(value)));
}

void set_layout(cublasLtMatrixLayout_t layout, cublasLtMatrixLayoutAttribute_t attribute,
                const auto& value) {
  RINGLET_CUBLAS(
      cublas_lt().cublasLtMatrixLayoutSetAttribute(layout, attribute, &value, sizeof(value)));
}

void set_preference(cublasLtMatmulPreference_t preference,
                    cublasLtMatmulPreferenceAttributes_t attribute, const auto& value) {
  RINGLET_CUBLAS(cublas_lt().cublasLtMatmulPreferenceSetAttribute(preference, attribute, &value,
                                                                  sizeof(value)));
}

using Description = CublasLtOwner<cublasLtMatmulDesc_t>;
using Layout = CublasLtOwner<cublasLtMatrixLayout_t>;
using Preference = CublasLtOwner<cublasLtMatmulPreference_t>;

Description make_product(cublasComputeType_t compute, cudaDataType_t scale) {
  cublasLtMatmulDesc_t product = nullptr;
  RINGLET_CUBLAS(cublas_lt().cublasLtMatmulDescCreate(&product, compute, scale));
  return Description(product);
}

Layout layout_of(const ColumnMajor& matrix, DType dtype, std::int64_t batch) {
  cublasLtMatrixLayout_t made = nullptr;
  RINGLET_CUBLAS(cublas_lt().cublasLtMatrixLayoutCreate(
      &made, data_type(dtype), static_cast<std::uint64_t>(matrix.rows),
      static_cast<std::uint64_t>(matrix.columns), matrix.ld));
  Layout layout(made);
  if (batch > 1) {
    set_layout(made, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, static_cast<std::int32_t>(batch));
    set_layout(made, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, matrix.stride);
  }
  return layout;
}

Preference preference_of(const ProductKey& key) {
  cublasLtMatmulPreference_t made = nullptr;
  RINGLET_CUBLAS(cublas_lt().cublasLtMatmulPreferenceCreate(&made));
  Preference preference(made);
  set_preference(made, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, kProductWorkspace);
  // Partial sums are stored in f32 and added in a fixed order.
  const std::uint32_t reductions =
      CUBLASLT_REDUCTION_SCHEME_NONE | CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
  set_preference(made, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, reductions);
  set_preference(made, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, key.left_alignment);
  set_preference(made, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, key.right_alignment);
  set_preference(made, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, key.out_alignment);
  set_preference(made, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, key.out_alignment);
  return preference;
}

// One per device; the library allows concurrent use. Never destroyed: the driver may be unloaded
// before objects with static storage are destroyed, and process exit frees it.
cublasLtHandle_t handle_of(Device device) {
  static auto* const handles = new std::array<cublasLtHandle_t, kMostDevices>{};
  static auto* const made = new std::array<std::once_flag, kMostDevices>;
  const auto i = static_cast<std::size_t>(device.index);
  std::call_once((*made)[i], [&] {
    const DeviceGuard guard(device);
    const LaunchGate::Call call;
    RINGLET_CUBLAS(cublas_lt().cublasLtCreate(&(*handles)[i]));
  });
  return (*handles)[i];
}

}  // namespace

std::string product_name(const ProductKey& key) {
  const MatmulPlan& plan = key.plan;
  const auto aligned = {key.left_alignment, key.right_alignment, key.out_alignment,
                        key.vector_alignment};
  if (plan.dtype != DType::bf16 || plan.batch != 1 || plan.beta != 0 ||
      std::ranges::any_of(aligned, [](std::uint32_t bytes) { return bytes != kMostAlignment; }))
    return "";
  return str(plan.right.transposed ? "T" : "N", plan.left.transposed ? "T " : "N ",
             plan.out.columns, "x", plan.out.rows, "x", plan.k, " bf16 to ", plan.product,
             plan.adds_bias ? ", bias" : "", plan.makes_sums ? ", sums" : "");
}

ProductDescriptors::ProductDescriptors(const ProductKey& key) {
  const MatmulPlan& plan = key.plan;
  RINGLET_CHECK(plan.batch <= INT32_MAX, "[matmul] ", plan.batch, " products at once");
  product_ = make_product(compute_type(plan.dtype, key.precision),
                          plan.dtype == DType::f64 ? CUDA_R_64F : CUDA_R_32F);
  set_product(product_.get(), CUBLASLT_MATMUL_DESC_TRANSA,
              plan.left.transposed ? CUBLAS_OP_T : CUBLAS_OP_N);
  set_product(product_.get(), CUBLASLT_MATMUL_DESC_TRANSB,
              plan.right.transposed ? CUBLAS_OP_T : CUBLAS_OP_N);
  if (plan.adds_bias)  // in the product's dtype, as the library expects
    set_product(product_.get(), CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_BIAS);
  if (plan.makes_sums)
    set_product(product_.get(), CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_BGRADB);
  // Until run(); to choose, the library looks only at the alignment of the bias or the sums.
  if (plan.has_epilogue())
    set_product(product_.get(), CUBLASLT_MATMUL_DESC_BIAS_POINTER,
                reinterpret_cast<const void*>(std::uintptr_t{key.vector_alignment}));
  left_ = layout_of(plan.left, plan.dtype, plan.batch);
  right_ = layout_of(plan.right, plan.dtype, plan.batch);
  out_ = layout_of(plan.out, plan.product, plan.batch);
}

std::optional<cublasLtMatmulHeuristicResult_t> ProductDescriptors::algorithm(
    const ProductKey& key, const TunedAlgorithms& tuned) const {
  if (const auto row = tuned.find(product_name(key)); row != tuned.end())
    if (const auto found = checked(key, row->second)) return found;
  const auto found = choices(key, 1);
  return found.empty() ? std::nullopt : std::optional(found.front());
}

std::vector<cublasLtMatmulHeuristicResult_t> ProductDescriptors::choices(const ProductKey& key,
                                                                         int most) const {
  std::vector<cublasLtMatmulHeuristicResult_t> found(static_cast<std::size_t>(most));
  int count = 0;
  const DeviceGuard guard(key.device);
  const cublasStatus_t status = cublas_lt().cublasLtMatmulAlgoGetHeuristic(
      handle_of(key.device), product_.get(), left_.get(), right_.get(), out_.get(), out_.get(),
      preference_of(key).get(), most, found.data(), &count);
  // Some versions report an epilogue that they lack as an invalid value.
  if (status == CUBLAS_STATUS_NOT_SUPPORTED ||
      (key.plan.has_epilogue() && status == CUBLAS_STATUS_INVALID_VALUE))
    return {};
  RINGLET_CUBLAS(status);
  found.resize(static_cast<std::size_t>(count));
  std::erase_if(found, [](const auto& one) { return one.state != CUBLAS_STATUS_SUCCESS; });
  return found;
}

std::optional<cublasLtMatmulHeuristicResult_t> ProductDescriptors::checked(
    const ProductKey& key, const cublasLtMatmulAlgo_t& algorithm) const {
  cublasLtMatmulHeuristicResult_t found{};
  const DeviceGuard guard(key.device);
  const cublasStatus_t status =
      cublas_lt().cublasLtMatmulAlgoCheck(handle_of(key.device), product_.get(), left_.get(),
                                          right_.get(), out_.get(), out_.get(), &algorithm, &found);
  if (status != CUBLAS_STATUS_SUCCESS || found.workspaceSize > kProductWorkspace)
    return std::nullopt;
  found.algo = algorithm;  // which the library leaves as it was
  return found;
}

void ProductDescriptors::run(const ProductKey& key, const cublasLtMatmulAlgo_t& algorithm,
                             const ProductPointers& at, void* workspace,
                             std::size_t workspace_nbytes, cudaStream_t stream) const {
  const MatmulPlan& plan = key.plan;
  if (plan.adds_bias) set_product(product_.get(), CUBLASLT_MATMUL_DESC_BIAS_POINTER, at.bias);
  if (plan.makes_sums) set_product(product_.get(), CUBLASLT_MATMUL_DESC_BIAS_POINTER, at.sums);
  const float one = 1, beta = static_cast<float>(plan.beta);
  const double wide_one = 1;
  const bool wide = plan.dtype == DType::f64;
  const DeviceGuard guard(key.device);
  RINGLET_CUBLAS(cublas_lt().cublasLtMatmul(
      handle_of(key.device), product_.get(), wide ? static_cast<const void*>(&wide_one) : &one,
      at.left, left_.get(), at.right, right_.get(),
      wide ? static_cast<const void*>(&plan.beta) : &beta, at.out, out_.get(), at.out, out_.get(),
      &algorithm, workspace, workspace_nbytes, stream));
}

namespace {

constexpr std::size_t kMostProducts = 4096;

struct Product {
  ProductDescriptors descriptors;
  std::optional<cublasLtMatmulHeuristicResult_t> choice;  // none: the library has no algorithm
  bool is_loaded = false;
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
    std::optional<LaunchGate::Call> loads;  // the library's kernel, in its first run
    if (!std::exchange(product.is_loaded, true)) loads.emplace();
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
