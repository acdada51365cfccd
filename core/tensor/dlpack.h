// DLPack: exports tensors to other libraries and imports theirs, without copying. The structs have
// the binary layout of DLPack 0.8 (DLManagedTensor) and 1.0 (DLManagedTensorVersioned); cast
// pointers from <dlpack/dlpack.h> to them.
// Definition: dmlc.github.io/dlpack/latest/c_api.html
#pragma once

#include <cstdint>

#include "ringlet/core/tensor/tensor.h"

namespace ringlet::dlpack {

struct DLDevice {
  std::int32_t device_type;  // kDLCPU, …
  std::int32_t device_id;
};
enum : std::int32_t { kDLCPU = 1, kDLCUDA = 2, kDLCUDAHost = 3 };

struct DLDataType {
  std::uint8_t code;  // kDLInt, …
  std::uint8_t bits;
  std::uint16_t lanes;
};
enum : std::uint8_t { kDLInt = 0, kDLUInt = 1, kDLFloat = 2, kDLBfloat = 4, kDLBool = 6 };

struct DLTensor {
  void* data;
  DLDevice device;
  std::int32_t ndim;
  DLDataType dtype;
  std::int64_t* shape;
  std::int64_t* strides;      // elements; null for row-major
  std::uint64_t byte_offset;  // of the first element from data
};

struct DLManagedTensor {
  DLTensor dl_tensor;
  void* manager_ctx;
  void (*deleter)(DLManagedTensor* self);  // may be null
};

struct DLPackVersion {
  std::uint32_t major;
  std::uint32_t minor;
};
inline constexpr std::uint64_t kReadOnly = 1;

struct DLManagedTensorVersioned {
  DLPackVersion version;
  void* manager_ctx;
  void (*deleter)(DLManagedTensorVersioned* self);  // may be null
  std::uint64_t flags;
  DLTensor dl_tensor;
};

/// Shares the memory; the deleter runs when the last tensor that uses it is released. Strided,
/// unaligned and read-only tensors are copied, and the deleter runs immediately. Bool becomes u8.
/// This library's version checks do not see writes through another library's handle. No packed form
/// of memory that was ever shared is therefore cached (Storage::share_outside). Throws on dtypes,
/// devices or sizes that ringlet lacks; the deleter is then not called and `managed` still belongs
/// to the caller. On CUDA both directions, and a tensor's release, wait for all work of the device.
Tensor from_dlpack(DLManagedTensor* managed);
Tensor from_dlpack(DLManagedTensorVersioned* managed);

/// Keeps the tensor's memory alive until the receiver calls the deleter. Writes to a tensor that
/// views a mapped file stay in memory; the file is unchanged.
DLManagedTensor* to_dlpack(const Tensor& tensor);
DLManagedTensorVersioned* to_dlpack_versioned(const Tensor& tensor);

}  // namespace ringlet::dlpack
