// Packed forms of parameters that are used again unchanged, as sidecars of their storage.
#pragma once

#include <cstddef>

#include "ringlet/core/cpu/gemm_operand.h"

namespace ringlet::cpu {

/// Holds on to the packed form of `x`, where there is one.
class KeptOperand {
 public:
  /// `pack` writes `nbytes` to `to`; together with `rows` and `columns` as they lie in memory it
  /// says which form is meant.
  KeptOperand(Device device, const GemmOperand& x, std::int64_t rows, std::int64_t columns,
              std::size_t nbytes, void (*pack)(const void* context, void* to), const void* context);
  ~KeptOperand();
  KeptOperand(const KeptOperand&) = delete;
  KeptOperand& operator=(const KeptOperand&) = delete;

  /// Null where the product has to pack x for itself: keep is null, the storage has seen no product
  /// of this form since it was written, or memory is limited.
  const void* data() const;  // no inline function: units of all instruction sets would share it

 private:
  void* holder_ = nullptr;
  const void* data_ = nullptr;
};

}  // namespace ringlet::cpu
