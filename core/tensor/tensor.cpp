#include "ringlet/core/tensor/tensor.h"

#include "ringlet/core/device/backend.h"

namespace ringlet {
namespace {

void copy_bytes(Tensor& to, const Tensor& from) {
  if (from.nbytes() == 0) return;
  const Device a = to.device(), b = from.device();
  const DeviceType through = a.type != DeviceType::cpu ? a.type : b.type;
  backend(through).copy(to.mutable_bytes(), a, from.bytes(), b, from.nbytes());
}

}  // namespace

Tensor::Tensor(std::shared_ptr<Storage> storage, std::size_t offset, Shape shape, DType dtype)
    : storage_(std::move(storage)),
      offset_(offset),
      numel_(shape.numel()),
      shape_(shape),
      dtype_(dtype) {
  RINGLET_CHECK(
      storage_ && offset_ <= storage_->nbytes() && nbytes() <= storage_->nbytes() - offset_,
      "[tensor] a view of shape ", shape_, " ", dtype_, " at byte ", offset_,
      " does not fit its storage");
}

Device Tensor::device() const {
  RINGLET_CHECK(defined(), "[tensor] an undefined tensor has no device");
  return storage_->device();
}

std::byte* Tensor::mutable_bytes() {
  if (!storage_) return nullptr;
  storage_->bump_version();
  return storage_->data() + offset_;
}

void Tensor::check_dtype(DType expected) const {
  RINGLET_CHECK_EQ(dtype_, expected, "[tensor] elements read as another dtype");
}

Tensor Tensor::view(Shape shape) const {
  std::int64_t known = 1;
  int inferred = -1;
  for (int i = 0; i < shape.dim(); ++i) {
    RINGLET_CHECK(shape[i] >= -1, "[view] negative size in ", shape);
    if (shape[i] != -1) {
      known *= shape[i];
      continue;
    }
    RINGLET_CHECK(inferred < 0, "[view] at most one size may be -1");
    inferred = i;
  }
  if (inferred >= 0) shape[inferred] = known ? numel_ / known : 0;
  RINGLET_CHECK_EQ(shape.numel(), numel_, "[view] ", shape_, " seen as ", shape);
  Tensor out = *this;
  out.shape_ = shape;
  return out;
}

Tensor Tensor::slice(std::int64_t begin, std::int64_t end) const {
  RINGLET_CHECK(dim() > 0, "[slice] of a scalar");
  RINGLET_CHECK(0 <= begin && begin <= end && end <= size(0), "[slice] rows [", begin, ", ", end,
                ") of shape ", shape_);
  const std::int64_t row = shape_.without(0).numel();
  return Tensor(storage_, offset_ + static_cast<std::size_t>(begin * row) * itemsize(dtype_),
                shape_.with(0, end - begin), dtype_);
}

Tensor Tensor::operator[](std::int64_t i) const {
  RINGLET_CHECK(dim() > 0, "[index] into a scalar");
  const std::int64_t row = i < 0 ? i + size(0) : i;
  return slice(row, row + 1).view(shape_.without(0));
}

Tensor Tensor::clone() const {
  Tensor out = empty_like(*this);
  copy_bytes(out, *this);
  return out;
}

Tensor Tensor::to(Device device) const {
  if (device == this->device()) return *this;
  Tensor out = empty(shape_, dtype_, device);
  copy_bytes(out, *this);
  return out;
}

Tensor Tensor::to(DType dtype) const {
  if (dtype == dtype_) return *this;
  Tensor out = empty(shape_, dtype, device());
  out.convert_(*this);
  return out;
}

void Tensor::copy_(const Tensor& source) {
  RINGLET_CHECK_EQ(numel_, source.numel(), "[copy_] ", shape_, " from ", source.shape());
  if (source.dtype() == dtype_) {
    copy_bytes(*this, source);
  } else if (source.device() == device()) {
    convert_(source);
  } else {
    copy_bytes(*this, source.to(dtype_));
  }
}

template <class T>
std::vector<T> Tensor::to_vector() const {
  const Tensor host = to(Device{}).to(dtype_of<T>());
  const T* data = host.data<T>();
  return std::vector<T>(data, data + numel_);
}
template std::vector<float> Tensor::to_vector<float>() const;
template std::vector<double> Tensor::to_vector<double>() const;
template std::vector<std::int32_t> Tensor::to_vector<std::int32_t>() const;
template std::vector<std::int64_t> Tensor::to_vector<std::int64_t>() const;
template std::vector<std::uint8_t> Tensor::to_vector<std::uint8_t>() const;

Tensor empty(Shape shape, DType dtype, Device device) {
  for (std::int64_t size : shape) RINGLET_CHECK(size >= 0, "[empty] negative size in ", shape);
  std::size_t nbytes = 0;
  RINGLET_CHECK(
      !__builtin_mul_overflow(static_cast<std::size_t>(shape.numel()), itemsize(dtype), &nbytes),
      "[empty] a ", dtype, " tensor of shape ", shape, " has too many bytes");
  return Tensor(std::make_shared<Storage>(nbytes, device), 0, shape, dtype);
}

Tensor empty_like(const Tensor& other) {
  return empty(other.shape(), other.dtype(), other.device());
}

void check_same_device(const char* op, const Tensor& a, const Tensor& b) {
  RINGLET_CHECK_EQ(a.device(), b.device(), "[", op, "] tensors on different devices");
}

void check_same_dtype(const char* op, const Tensor& a, const Tensor& b) {
  RINGLET_CHECK_EQ(a.dtype(), b.dtype(), "[", op, "] tensors of different dtypes");
}

void check_shape(const char* op, const char* what, const Tensor& tensor, const Shape& expected) {
  RINGLET_CHECK_EQ(tensor.shape(), expected, "[", op, "] shape of ", what);
}

}  // namespace ringlet
