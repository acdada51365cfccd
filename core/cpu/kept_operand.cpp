#include "ringlet/core/cpu/kept_operand.h"

#include "ringlet/core/tensor/storage.h"

namespace ringlet::cpu {

using Holder = std::shared_ptr<Storage>;

KeptOperand::KeptOperand(Device device, const GemmOperand& x, std::int64_t rows,
                         std::int64_t columns, std::size_t nbytes,
                         void (*pack)(const void* context, void* to), const void* context) {
  if (!x.keep) return;
  // With a memory limit, forms cached earlier are used but none is added.
  const bool limited = memory_stats(device).limit > 0;
  const auto offset =
      static_cast<std::size_t>(static_cast<const std::byte*>(x.data) - x.keep->data());
  // Distinguishes rounded from exact f32 if the same `pack` handles both.
  const DType counts_as = x.rounded ? DType::bf16 : x.dtype;
  const SidecarForm form{pack, rows, columns, counts_as, x.trans};
  // Packed without parallel_for: another thread may hold the device's pool and wait for this form.
  Holder packed = x.keep->sidecar(offset, form, [&]() -> Holder {
    if (limited) return nullptr;
    auto storage = std::make_shared<Storage>(nbytes, device);
    pack(context, storage->data());
    return storage;
  });
  if (!packed) return;
  data_ = packed->data();
  holder_ = new Holder(std::move(packed));
}

const void* KeptOperand::data() const { return data_; }

KeptOperand::~KeptOperand() { delete static_cast<Holder*>(holder_); }

}  // namespace ringlet::cpu
