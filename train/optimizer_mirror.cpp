// The mirror of an arena that is whole here: its numbers as bf16 products read them, which the pass
// that updates them writes beside them. Two bytes an element, once a product has wanted them.
#include "ringlet/train/optimizer.h"

namespace ringlet::train {
namespace {

const void* stream_of(Device device) { return backend(device.type).stream(device); }

}  // namespace

Optimizer::~Optimizer() { drop_mirror(); }

bool Optimizer::wants_mirror() const {
  if (arena_->sharding() || !arena_->data().defined()) return false;
  const Storage& parameters = *arena_->data().storage();
  return parameters.wants_mirror() && !parameters.is_shared_outside() &&
         memory_stats(device()).limit == 0;
}

// Elements that an update skips stay right, as the whole mirror was right before it. After a write
// by other code the whole mirror is cast again, at the same address.
void Optimizer::prepare_mirror() {
  if (!wants_mirror()) return drop_mirror();
  if (has_mirror()) return;
  if (!mirror_.defined()) mirror_ = empty({arena_->numel()}, DType::bf16, device());
  mirror_.copy_(arena_->data());
  keep_mirror();
}

bool Optimizer::has_mirror() const {
  return mirror_.defined() && wants_mirror() &&
         arena_->data().storage()->mirror(stream_of(device())) == mirror_.storage();
}

// It has what the parameters have been given.
void Optimizer::keep_mirror() {
  arena_->data().storage()->set_mirror(mirror_.storage(), stream_of(device()));
}

void Optimizer::drop_mirror() {
  if (!mirror_.defined()) return;
  if (arena_->data().defined()) arena_->data().storage()->set_mirror(nullptr);
  mirror_ = Tensor();
}

}  // namespace ringlet::train
