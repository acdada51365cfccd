// A tensor is a value: shape, dtype, device and shared storage, always contiguous and row-major.
// `view`, `slice` and `operator[]` share storage; everything else copies.
#pragma once

#include <algorithm>
#include <memory>
#include <vector>

#include "ringlet/core/base/dtype.h"
#include "ringlet/core/base/error.h"
#include "ringlet/core/tensor/shape.h"
#include "ringlet/core/tensor/storage.h"

namespace ringlet {

class Tensor {
 public:
  Tensor() = default;  // undefined
  /// A view of `storage` that starts at byte `offset`; throws if it does not fit.
  Tensor(std::shared_ptr<Storage> storage, std::size_t offset, Shape shape, DType dtype);

  bool defined() const { return storage_ != nullptr; }
  explicit operator bool() const { return defined(); }
  const Shape& shape() const { return shape_; }
  std::int64_t size(int i) const { return shape_[i]; }
  int dim() const { return shape_.dim(); }
  std::int64_t numel() const { return numel_; }
  std::size_t nbytes() const { return static_cast<std::size_t>(numel_) * itemsize(dtype_); }
  DType dtype() const { return dtype_; }
  Device device() const;
  const std::shared_ptr<Storage>& storage() const { return storage_; }
  std::size_t storage_offset() const { return offset_; }  // bytes
  std::uint64_t version() const { return storage_ ? storage_->version() : 0; }

  const std::byte* bytes() const { return storage_ ? storage_->data() + offset_ : nullptr; }
  /// For writing: increments the storage's version.
  std::byte* mutable_bytes();
  /// Throws unless T is the dtype.
  template <class T>
  const T* data() const {
    check_dtype(dtype_of<T>());
    return reinterpret_cast<const T*>(bytes());
  }
  template <class T>
  T* mutable_data() {
    check_dtype(dtype_of<T>());
    return reinterpret_cast<T*>(mutable_bytes());
  }

  /// The same elements in another shape; one size may be -1.
  Tensor view(Shape shape) const;
  /// Rows [begin, end) of the outermost dimension, sharing storage.
  Tensor slice(std::int64_t begin, std::int64_t end) const;
  /// Row `i` of the outermost dimension, sharing storage.
  Tensor operator[](std::int64_t i) const;

  Tensor clone() const;
  Tensor to(Device device) const;  // itself if it is there already
  Tensor to(DType dtype) const;    // itself if it has that dtype already
  /// Copies `source` (same numel; any dtype and device) into this tensor.
  void copy_(const Tensor& source);
  void fill_(double value);
  void zero_() { fill_(0); }

  /// The only element, converted; throws unless there is exactly one.
  template <class T = float>
  T item() const {
    RINGLET_CHECK_EQ(numel_, std::int64_t{1}, "[item] a tensor of one element is needed");
    return to_vector<T>()[0];
  }
  /// All elements, row-major, converted to T.
  template <class T = float>
  std::vector<T> to_vector() const;

 private:
  void check_dtype(DType expected) const;
  void convert_(const Tensor& source);  // on this device

  std::shared_ptr<Storage> storage_;
  std::size_t offset_ = 0;
  std::int64_t numel_ = 0;
  Shape shape_;
  DType dtype_ = DType::f32;
};

/// An uninitialised tensor.
Tensor empty(Shape shape, DType dtype = DType::f32, Device device = default_device());
Tensor empty_like(const Tensor& other);
Tensor zeros(Shape shape, DType dtype = DType::f32, Device device = default_device());
Tensor zeros_like(const Tensor& other);
Tensor ones(Shape shape, DType dtype = DType::f32, Device device = default_device());
Tensor full(Shape shape, double value, DType dtype = DType::f32, Device device = default_device());
/// start, start + step, …, below end (above it for a negative step).
Tensor arange(double start, double end, double step = 1, DType dtype = DType::i64,
              Device device = default_device());

/// A tensor with these elements.
template <class T>
Tensor tensor(const std::vector<T>& values, Shape shape, Device device = default_device()) {
  RINGLET_CHECK_EQ(static_cast<std::int64_t>(values.size()), shape.numel(),
                   "[tensor] values do not fill shape ", shape);
  Tensor out = empty(shape, dtype_of<T>(), Device{});
  std::copy(values.begin(), values.end(), out.template mutable_data<T>());
  return out.to(device);
}
template <class T = float>
Tensor tensor(std::initializer_list<T> values) {
  return tensor(std::vector<T>(values), {static_cast<std::int64_t>(values.size())});
}

/// "tensor([[1, 2], [3, 4]], f32 (2, 2) cpu:0)"; long dimensions are cut in the middle.
std::ostream& operator<<(std::ostream& out, const Tensor& tensor);

/// Throws "[op] what: ..." unless both tensors have this property.
void check_same_device(const char* op, const Tensor& a, const Tensor& b);
void check_same_dtype(const char* op, const Tensor& a, const Tensor& b);
void check_shape(const char* op, const char* what, const Tensor& tensor, const Shape& expected);

}  // namespace ringlet
