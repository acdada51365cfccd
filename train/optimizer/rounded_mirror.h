// The rounded mirror of an arena that is whole here: its numbers as bf16 products read them, which
// the pass that updates them writes, too. Two bytes an element, once a product has wanted them.
#pragma once

#include "ringlet/core/device/backend.h"
#include "ringlet/nn/arena.h"

namespace ringlet::train {

class RoundedMirror {
 public:
  explicit RoundedMirror(nn::Arena& arena) : arena_(arena) {}
  ~RoundedMirror() { drop(); }
  RoundedMirror(const RoundedMirror&) = delete;
  RoundedMirror& operator=(const RoundedMirror&) = delete;

  /// Elements that an update skips stay right, as the whole mirror was right before it. After a
  /// write by other code the whole mirror is cast again, at the same address.
  void prepare() {
    if (!is_wanted()) return drop();
    if (is_current()) return;
    const Tensor& data = arena_.data();
    if (!values_.defined()) values_ = empty({data.numel()}, DType::bf16, data.device());
    values_.copy_(data);
    keep();
  }
  bool is_current() const {
    return values_.defined() && is_wanted() &&
           arena_.data().storage()->mirror(stream()) == values_.storage();
  }
  /// To be called after an update that wrote it: it is that of the parameters' new version.
  void keep() { arena_.data().storage()->set_mirror(values_.storage(), stream()); }
  const Tensor& values() const { return values_; }  // (n) bf16; undefined: none

 private:
  bool is_wanted() const {
    if (arena_.sharding() || !arena_.data().defined()) return false;
    const Storage& parameters = *arena_.data().storage();
    return parameters.wants_mirror() && !parameters.is_shared_outside() &&
           memory_stats(arena_.data().device()).limit == 0;
  }
  const void* stream() const {
    const Device device = arena_.data().device();
    return backend(device.type).stream(device);
  }
  void drop() {
    if (!values_.defined()) return;
    if (arena_.data().defined()) arena_.data().storage()->set_mirror(nullptr);
    values_ = Tensor();
  }

  nn::Arena& arena_;
  Tensor values_;
};

}  // namespace ringlet::train
