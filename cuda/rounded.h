// Parameters as products take them, rounded, and where that is kept from product to product. No
// toolkit is needed.
#pragma once

#include <cstdint>
#include <memory>

#include "ringlet/core/ops/fill.h"
#include "ringlet/core/storage.h"

namespace ringlet::cuda {

/// Numbers that a product takes in another dtype.
struct ToRound {
  const void* data;  // (n)
  std::int64_t n;
  DType dtype;
  DType to;
  Storage* of;   // where they are a parameter's, which may keep them rounded; else null
  bool at_once;  // as of now, because more products will want them: a layer's gradients
};

/// Names the sidecar that holds a parameter rounded to a dtype; cast_kernel makes it.
inline void rounded_form(const void*, void*) {}

/// What the library's widest loads need, which products should not lose.
inline constexpr std::uintptr_t kRoundedAlignment = 16;

/// Those of the storage's mirror, which is asked for.
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

/// The rounded numbers (n), where they are kept beside their storage; not where memory is limited.
/// `order` is that of this thread's work for the device.
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
