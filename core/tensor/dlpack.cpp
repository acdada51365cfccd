#include "ringlet/core/tensor/dlpack.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>

#include "ringlet/core/base/error.h"
#include "ringlet/core/device/backend.h"
#include "ringlet/core/tensor/shape.h"

namespace ringlet::dlpack {

// Strided tensors of other libraries; strides are in elements.

/// `strides` is null for row-major.
inline bool is_contiguous(const Shape& shape, const std::int64_t* strides) {
  if (!strides) return true;
  std::int64_t expected = 1;
  for (int i = shape.dim() - 1; i >= 0; --i) {
    if (shape[i] != 1 && strides[i] != expected) return false;
    expected *= shape[i];
  }
  return true;
}

/// Copies elements of `size` bytes on the host, in row-major order; strides may be 0 or negative.
inline void copy_strided(std::byte* out, const std::byte* data, const Shape& shape,
                         const std::int64_t* strides, std::size_t size) {
  std::array<std::int64_t, Shape::kMaxDim> index{};
  const auto step = static_cast<std::int64_t>(size);
  std::int64_t offset = 0;
  for (int i = 0; i >= 0; out += size) {
    std::memcpy(out, data + offset * step, size);
    // Odometer: the last dimension changes fastest.
    for (i = shape.dim() - 1; i >= 0; --i) {
      const auto d = static_cast<std::size_t>(i);
      offset += strides[i];
      if (++index[d] < shape[i]) break;
      offset -= strides[i] * shape[i];
      index[d] = 0;
    }
  }
}

namespace {

static_assert(sizeof(void*) != 8 || (sizeof(DLTensor) == 48 && sizeof(DLManagedTensor) == 64 &&
                                     sizeof(DLManagedTensorVersioned) == 80),
              "the binary layout of DLPack");

struct Row {
  DType dtype;
  std::uint8_t code;
  std::uint8_t bits;
};
// The first row of a dtype is the one for export.
constexpr std::array<Row, 8> kRows{{{DType::f32, kDLFloat, 32},
                                    {DType::f64, kDLFloat, 64},
                                    {DType::bf16, kDLBfloat, 16},
                                    {DType::f16, kDLFloat, 16},
                                    {DType::i32, kDLInt, 32},
                                    {DType::i64, kDLInt, 64},
                                    {DType::u8, kDLUInt, 8},
                                    {DType::u8, kDLBool, 8}}};

// ---- in -----------------------------------------------------------------------------------

DType dtype_from(const DLDataType& type) {
  for (const Row& row : kRows)
    if (row.code == type.code && row.bits == type.bits && type.lanes == 1) return row.dtype;
  fail("[from_dlpack] dtype of code ", int{type.code}, ", ", int{type.bits}, " bits and ",
       type.lanes, " lanes is not supported");
}

Device device_from(const DLDevice& device) {
  if (device.device_type == kDLCPU || device.device_type == kDLCUDAHost) return {};
  if (device.device_type == kDLCUDA) {
    RINGLET_CHECK(has_backend(DeviceType::cuda), "[from_dlpack] ", no_device(DeviceType::cuda));
    return {DeviceType::cuda, device.device_id};
  }
  fail("[from_dlpack] devices of type ", device.device_type, " are not supported");
}

Shape shape_from(const DLTensor& tensor, DType dtype) {
  RINGLET_CHECK(tensor.ndim >= 0 && tensor.ndim <= Shape::kMaxDim, "[from_dlpack] ", tensor.ndim,
                " dimensions, at most ", Shape::kMaxDim, " are supported");
  RINGLET_CHECK(tensor.ndim == 0 || tensor.shape, "[from_dlpack] a tensor without its shape");
  auto nbytes = static_cast<std::int64_t>(itemsize(dtype));
  for (std::int32_t i = 0; i < tensor.ndim; ++i)
    RINGLET_CHECK(tensor.shape[i] >= 0 && !__builtin_mul_overflow(nbytes, tensor.shape[i], &nbytes),
                  "[from_dlpack] size ", tensor.shape[i], " of dimension ", i);
  return Shape(std::span(tensor.shape, static_cast<std::size_t>(tensor.ndim)));
}

Tensor copy_of(const DLTensor& tensor, const Shape& shape, DType dtype, Device device) {
  Tensor out = empty(shape, dtype, device);
  if (out.numel() == 0) return out;
  const auto* data = static_cast<const std::byte*>(tensor.data) + tensor.byte_offset;
  if (is_contiguous(shape, tensor.strides)) {
    backend(device.type).copy(out.mutable_bytes(), device, data, device, out.nbytes());
    return out;
  }
  RINGLET_CHECK(device.type == DeviceType::cpu, "[from_dlpack] a strided tensor on ", device,
                " is not supported; make it contiguous first");
  copy_strided(out.mutable_bytes(), data, shape, tensor.strides, itemsize(dtype));
  return out;
}

// The libraries share no streams: work that one has enqueued completes before the other continues.
// Errors are ignored, as the program may be ending without a driver; the next call reports them.
void settle(Device device) noexcept {
  try {
    if (device.type != DeviceType::cpu) backend(device.type).synchronize(device);
  } catch (const Error&) {
    return;
  }
}

template <class Managed>
void release(Managed* managed) {
  if (managed->deleter) managed->deleter(managed);
}

template <class Managed>
Tensor import(Managed* managed, bool read_only) {
  const DLTensor& tensor = managed->dl_tensor;
  const DType dtype = dtype_from(tensor.dtype);
  const Device device = device_from(tensor.device);
  const Shape shape = shape_from(tensor, dtype);
  settle(device);
  auto* data = static_cast<std::byte*>(tensor.data) + tensor.byte_offset;
  const bool aligned = reinterpret_cast<std::uintptr_t>(data) % itemsize(dtype) == 0;
  if (read_only || !aligned || !is_contiguous(shape, tensor.strides)) {
    Tensor out = copy_of(tensor, shape, dtype, device);
    settle(device);
    release(managed);
    return out;
  }
  const std::size_t nbytes = static_cast<std::size_t>(shape.numel()) * itemsize(dtype);
  const auto storage = std::make_shared<Storage>(data, nbytes, device, [device, managed] {
    settle(device);
    release(managed);
  });
  storage->share_outside();
  return Tensor(storage, 0, shape, dtype);
}

// ---- out ----------------------------------------------------------------------------------

/// The memory that an exported tensor points to, freed by its deleter.
template <class Managed>
struct Export {
  Managed managed{};
  Tensor tensor;
  std::array<std::int64_t, Shape::kMaxDim> shape{};
  std::array<std::int64_t, Shape::kMaxDim> strides{};
};

template <class Managed>
Managed* export_as(const Tensor& tensor) {
  RINGLET_CHECK(tensor.defined(), "[to_dlpack] an undefined tensor");
  settle(tensor.device());
  auto out = std::make_unique<Export<Managed>>();
  out->tensor = tensor;
  tensor.storage()->share_outside();
  std::copy(tensor.shape().begin(), tensor.shape().end(), out->shape.begin());
  std::int64_t stride = 1;
  for (int i = tensor.dim() - 1; i >= 0; --i) {
    out->strides[static_cast<std::size_t>(i)] = stride;
    stride *= tensor.size(i);
  }
  const Row& row = *std::find_if(kRows.begin(), kRows.end(), [&](const Row& candidate) {
    return candidate.dtype == tensor.dtype();
  });
  const bool cpu = tensor.device().type == DeviceType::cpu;
  out->managed.manager_ctx = out.get();
  out->managed.deleter = [](Managed* self) {
    auto* const exported = static_cast<Export<Managed>*>(self->manager_ctx);
    settle(exported->tensor.device());
    delete exported;
  };
  out->managed.dl_tensor = {const_cast<std::byte*>(tensor.bytes()),
                            {cpu ? kDLCPU : kDLCUDA, cpu ? 0 : tensor.device().index},
                            tensor.dim(),
                            {row.code, row.bits, 1},
                            out->shape.data(),
                            out->strides.data(),
                            0};
  return &out.release()->managed;
}

}  // namespace

Tensor from_dlpack(DLManagedTensor* managed) { return import(managed, false); }

Tensor from_dlpack(DLManagedTensorVersioned* managed) {
  RINGLET_CHECK(managed->version.major == 1, "[from_dlpack] DLPack version ",
                managed->version.major, ".", managed->version.minor, ", expected 1.x");
  return import(managed, (managed->flags & kReadOnly) != 0);
}

DLManagedTensor* to_dlpack(const Tensor& tensor) { return export_as<DLManagedTensor>(tensor); }

DLManagedTensorVersioned* to_dlpack_versioned(const Tensor& tensor) {
  auto* out = export_as<DLManagedTensorVersioned>(tensor);
  out->version = {1, 0};
  return out;
}

}  // namespace ringlet::dlpack
