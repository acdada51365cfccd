// Matrix products of the emulated GPU: plain loops. Reads and writes are checked like a kernel's.
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <set>
#include <vector>

#include "../gpu/copy.h"
#include "../gpu/counters.h"
#include "../runtime/calls.h"
#include "product_call.h"

namespace ringlet::emulated {
namespace {

constexpr std::int64_t kParts = 16;  // sums side by side, which the compiler vectorises

std::size_t element_bytes(cudaDataType type) {
  return type == CUDA_R_64F ? 8 : type == CUDA_R_32F ? 4 : 2;
}

double value_at(const std::byte* data, cudaDataType type, std::int64_t i) {
  if (type == CUDA_R_64F) return reinterpret_cast<const double*>(data)[i];
  if (type == CUDA_R_32F) return static_cast<double>(reinterpret_cast<const float*>(data)[i]);
  const std::uint32_t bits = reinterpret_cast<const std::uint16_t*>(data)[i];
  return static_cast<double>(std::bit_cast<float>(bits << 16));
}

void put(std::byte* data, cudaDataType type, std::int64_t i, double value) {
  if (type == CUDA_R_64F) {
    reinterpret_cast<double*>(data)[i] = value;
    return;
  }
  const auto narrow = static_cast<float>(value);
  if (type == CUDA_R_32F) {
    reinterpret_cast<float*>(data)[i] = narrow;
    return;
  }
  const auto bits = std::bit_cast<std::uint32_t>(narrow);
  reinterpret_cast<std::uint16_t*>(data)[i] = static_cast<std::uint16_t>(
      std::isnan(narrow) ? 0x7fff : (bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

// Rounds to 10 bits of mantissa.
float to_tf32(float value) {
  if (!std::isfinite(value)) return value;
  const auto bits = std::bit_cast<std::uint32_t>(value);
  return std::bit_cast<float>((bits + 0x0fff + (bits >> 13 & 1)) & ~0x1fffu);
}

// One matrix of a batch; its columns are contiguous.
class Columns {
 public:
  Columns(const Matrix& matrix, std::int32_t which)
      : matrix_(matrix),
        begin_(reinterpret_cast<Address>(matrix.data) +
               static_cast<Address>(which * matrix.stride) * element_bytes(matrix.type)) {}

  Address address(std::int64_t column) const {
    return begin_ + static_cast<Address>(column * matrix_.ld) * element_bytes(matrix_.type);
  }
  std::size_t nbytes() const {
    return static_cast<std::size_t>(matrix_.rows) * element_bytes(matrix_.type);
  }
  // The whole matrix in row-major or column-major order.
  template <class T>
  std::vector<T> read(bool by_rows, const LaunchOrder& order) const {
    std::vector<T> values(static_cast<std::size_t>(matrix_.rows * matrix_.columns));
    std::vector<std::byte> column(nbytes());
    for (std::int64_t j = 0; j < matrix_.columns; ++j) {
      read_bytes(column.data(), address(j), nbytes(), order);
      for (std::int64_t i = 0; i < matrix_.rows; ++i)
        values[static_cast<std::size_t>(by_rows ? i * matrix_.columns + j : j * matrix_.rows + i)] =
            static_cast<T>(value_at(column.data(), matrix_.type, i));
    }
    return values;
  }

 private:
  const Matrix& matrix_;
  Address begin_;
};

// The dot product of a row and a column. Algorithms 0 and 1 have the same bits; 2 splits k in half.
template <class T>
T dot(const T* a, const T* b, std::int64_t k) {
  T parts[kParts] = {};
  std::int64_t p = 0;
  for (; p + kParts <= k; p += kParts)
    for (std::int64_t i = 0; i < kParts; ++i) parts[i] += a[p + i] * b[p + i];
  T sum = 0;
  for (; p < k; ++p) sum += a[p] * b[p];
  for (const T part : parts) sum += part;
  return sum;
}
template <class T>
T dot_of(int algorithm, const T* a, const T* b, std::int64_t k) {
  if (algorithm < 2) return dot(a, b, k);
  const std::int64_t half = k / 2;
  return dot(a, b, half) + dot(a + half, b + half, k - half);
}

template <class T>
void multiply(const ProductCall& call, std::int32_t which, const LaunchOrder& order) {
  const std::int64_t m = call.d.rows, n = call.d.columns;
  const std::int64_t k = call.a_transposed ? call.a.rows : call.a.columns;
  // Contiguous rows of op(a) and columns of op(b).
  auto a = Columns(call.a, which).read<T>(!call.a_transposed, order);
  auto b = Columns(call.b, which).read<T>(call.b_transposed, order);
  if (call.tf32) {
    for (T& value : a) value = static_cast<T>(to_tf32(static_cast<float>(value)));
    for (T& value : b) value = static_cast<T>(to_tf32(static_cast<float>(value)));
  }
  const Columns out(call.d, which);
  const std::size_t element = element_bytes(call.d.type);
  std::vector<std::byte> bias(call.epilogue == CUBLASLT_EPILOGUE_BIAS ? out.nbytes() : 0);
  if (!bias.empty())
    read_bytes(bias.data(), reinterpret_cast<Address>(call.vector), bias.size(), order);
  std::vector<std::byte> column(out.nbytes());
  for (std::int64_t j = 0; j < n; ++j) {
    if (call.beta != 0) read_bytes(column.data(), out.address(j), column.size(), order);
    for (std::int64_t i = 0; i < m; ++i) {
      const T sum = dot_of(call.algorithm, &a[static_cast<std::size_t>(i * k)],
                           &b[static_cast<std::size_t>(j * k)], k);
      T value = static_cast<T>(call.alpha) * sum;
      if (call.beta != 0)
        value +=
            static_cast<T>(call.beta) * static_cast<T>(value_at(column.data(), call.d.type, i));
      if (!bias.empty()) value += static_cast<T>(value_at(bias.data(), call.d.type, i));
      put(column.data(), call.d.type, i, static_cast<double>(value));
    }
    write_bytes(out.address(j), column.data(), column.size(), order);
  }
  if (call.epilogue != CUBLASLT_EPILOGUE_BGRADB) return;
  std::vector<std::byte> sums(static_cast<std::size_t>(n) * element);
  for (std::int64_t j = 0; j < n; ++j) {
    T sum = 0;
    for (std::int64_t p = 0; p < k; ++p) sum += b[static_cast<std::size_t>(j * k + p)];
    put(sums.data(), call.d.type, j, static_cast<double>(sum));
  }
  write_bytes(reinterpret_cast<Address>(call.vector), sums.data(), sums.size(), order);
}

// Tiles of 128 x 128 count as blocks. All matrices are read once.
void keep_product(const ProductCall& call) {
  const auto bytes = [](const Matrix& matrix) {
    return static_cast<std::uint64_t>(matrix.rows * matrix.columns * matrix.batch) *
           element_bytes(matrix.type);
  };
  const std::int64_t k = call.a_transposed ? call.a.rows : call.a.columns;
  LaunchCounters made;
  made.kernel = "product";
  made.blocks = static_cast<std::uint64_t>((call.d.rows + 127) / 128 *
                                           ((call.d.columns + 127) / 128) * call.d.batch);
  made.bytes = bytes(call.a) + bytes(call.b) + bytes(call.d) * (call.beta != 0 ? 2 : 1);
  made.sectors = made.least_sectors = made.touched_sectors =
      (made.bytes + kSectorBytes - 1) / kSectorBytes;
  made.flops = 2 * static_cast<std::uint64_t>(call.d.rows * call.d.columns * call.d.batch * k);
  made.tensor_cores = call.tf32 || call.a.type == CUDA_R_16BF;
  keep_counters(std::move(made));
}

void run(const ProductCall& call, const LaunchOrder& order) {
  keep_product(call);
  if (call.workspace_bytes > 0)
    fill_bytes(reinterpret_cast<Address>(call.workspace), 0xff, call.workspace_bytes, order);
  for (std::int32_t which = 0; which < call.d.batch; ++which) {
    if (call.wide)
      multiply<double>(call, which, order);
    else
      multiply<float>(call, which, order);
  }
}

}  // namespace
}  // namespace ringlet::emulated

extern "C" void ringlet_emulated_delay(const char* name) {
  ringlet::emulated::Call held;
  held.streams().delay_call(held.lock(), name);
}

extern "C" void ringlet_emulated_multiply(const ringlet::emulated::ProductCall& call,
                                          cudaStream_t stream) {
  using namespace ringlet::emulated;
  Call held;
  Stream* const on = held.streams().of(stream);
  static std::set<std::array<int, 5>> loaded;  // kernels
  if (loaded.insert({on->device, call.algorithm, call.a.type, call.a_transposed, call.b_transposed})
          .second)
    held.streams().delay_call(held.lock(), "cublasLtMatmul");
  held.streams().enqueue(
      on, at_once("cublasLtMatmul", [call](const LaunchOrder& order) { run(call, order); }));
}
