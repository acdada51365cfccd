// Eigen's maps of CPU tensors, and tensors of Eigen's matrices, without copying. No other header
// includes this one: it needs Eigen 3.4 (Debian: libeigen3-dev).
#pragma once

#include <Eigen/Core>
#include <utility>

#include "ringlet/core/tensor/tensor.h"

namespace ringlet::eigen {

template <class T>
using Matrix = Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
template <class T>
using Map = Eigen::Map<Matrix<T>>;
template <class T>
using ConstMap = Eigen::Map<const Matrix<T>>;

namespace detail {

/// Rows and columns of a map: the last dimension has the columns, (n) is one row.
inline std::pair<Eigen::Index, Eigen::Index> sizes(const Tensor& tensor) {
  RINGLET_CHECK(tensor.defined() && tensor.device().type == DeviceType::cpu,
                "[eigen] needs a tensor on a CPU");
  const Eigen::Index columns = tensor.dim() == 0 ? 1 : tensor.size(tensor.dim() - 1);
  return {columns == 0 ? 0 : tensor.numel() / columns, columns};
}

}  // namespace detail

/// The elements of a CPU tensor of dtype T (…, n) as a matrix of n columns. The tensor must outlive
/// the map. Throws on another dtype or device.
template <class T>
ConstMap<T> map(const Tensor& tensor) {
  const auto [rows, columns] = detail::sizes(tensor);
  return {tensor.data<T>(), rows, columns};
}

/// The same, for writing. Increments the version once: make a new map after backward or a product
/// has used the tensor.
template <class T>
Map<T> mutable_map(Tensor& tensor) {
  const auto [rows, columns] = detail::sizes(tensor);
  return {tensor.mutable_data<T>(), rows, columns};
}

/// A tensor (rows, columns) with the matrix's memory, which it owns. To keep the matrix, pass a
/// copy.
template <class T>
Tensor tensor_of(Matrix<T> matrix) {
  const auto kept = std::make_shared<Matrix<T>>(std::move(matrix));
  const auto nbytes = static_cast<std::size_t>(kept->size()) * sizeof(T);
  const auto storage = std::make_shared<Storage>(reinterpret_cast<std::byte*>(kept->data()), nbytes,
                                                 Device{}, [kept] {});
  return {storage, 0, {kept->rows(), kept->cols()}, dtype_of<T>()};
}

}  // namespace ringlet::eigen
