// Packed forms of parameters that are reused unchanged, cached as sidecars of their storage.
#pragma once

#include <cstddef>

#include "ringlet/core/cpu/gemm_operand.h"

namespace ringlet::cpu {

/// Holds the packed form of `x`, if there is one.
class KeptOperand {
 public:
  /// `pack` writes `nbytes` to `to`. `pack`, `rows` and `columns` (in memory) identify the form.
  KeptOperand(Device device, const GemmOperand& x, std::int64_t rows, std::int64_t columns,
              std::size_t nbytes, void (*pack)(const void* context, void* to), const void* context);
  ~KeptOperand();
  KeptOperand(const KeptOperand&) = delete;
  KeptOperand& operator=(const KeptOperand&) = delete;

  /// Null if the product must pack x itself: x.keep is null; or this is the form's first product
  /// since a write to the storage; or memory is limited and the form not cached.
  const void* data() const;  // not inline: units of all instruction sets would share it

 private:
  void* holder_ = nullptr;
  const void* data_ = nullptr;
};

}  // namespace ringlet::cpu
