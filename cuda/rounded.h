// Parameters rounded for products, and the cache of the rounded numbers. Needs no toolkit.
#pragma once

#include <cstdint>
#include <memory>

#include "ringlet/core/device/backend.h"
#include "ringlet/core/ops/fill.h"
#include "ringlet/core/tensor/storage.h"

namespace ringlet::cuda {

/// Numbers that a product reads in another dtype.
struct ToRound {
  const void* data;  // (n)
  std::int64_t n;
  DType dtype;
  DType to;
  Storage* of;   // of a parameter, which may cache the rounded numbers; else null
  bool at_once;  // cache them at the first request: a layer's gradients use them again
};

/// Names the sidecar that holds a parameter rounded to a dtype; cast_kernel makes it.
inline void rounded_form(const void*, void*) {}

/// Enough for the library's widest loads, so that products keep them.
inline constexpr std::uintptr_t kRoundedAlignment = 16;

/// The rounded numbers in the storage's mirror, if it has one. `at_once` requests a mirror.
inline std::shared_ptr<const std::byte> mirrored(const ToRound& x, Device device,
                                                 std::size_t offset) {
  if (x.dtype != DType::f32 || x.to != DType::bf16) return nullptr;
  if (x.at_once) x.of->want_mirror();
  const std::shared_ptr<Storage> mirror = x.of->mirror(backend(device.type).stream(device));
  if (!mirror) return nullptr;
  const std::byte* const at = mirror->data() + offset / 2;
  if (reinterpret_cast<std::uintptr_t>(at) % kRoundedAlignment != 0) return nullptr;
  return {mirror, at};
}

/// The rounded numbers (n) cached with their storage; null if memory is limited, or at a first
/// request without `at_once`. `order` identifies the order of this thread's work for the device.
inline std::shared_ptr<const std::byte> kept_rounded(const ToRound& x, Device device,
                                                     std::uint64_t order) {
  if (memory_stats(device).limit > 0) return nullptr;
  const auto offset =
      static_cast<std::size_t>(static_cast<const std::byte*>(x.data) - x.of->data());
  if (auto mirror = mirrored(x, device, offset)) return mirror;
  const auto make = [&] {
    auto rounded =
        std::make_shared<Storage>(static_cast<std::size_t>(x.n) * itemsize(x.to), device);
    cast_kernel({rounded->data(), x.data, x.n, x.to, x.dtype}, device);
    return rounded;
  };
  const auto rounded =
      x.of->sidecar(offset, {rounded_form, x.n, 1, x.to, false, order}, make, x.at_once);
  return rounded ? std::shared_ptr<const std::byte>(rounded, rounded->data()) : nullptr;
}

}  // namespace ringlet::cuda
