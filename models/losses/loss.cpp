#include "ringlet/models/losses/loss.h"

#include "ringlet/models/token_bucket.h"

namespace ringlet::models {

PackedBatch Loss::placed_here(const PackedBatch& batch, Device device) {
  const std::int64_t tokens = bucket_of(batch);
  const bool fills = device.type != DeviceType::cpu && tokens > 0 && loss_of(batch).is_capturable();
  return (fills ? filled_up(batch, tokens) : batch).to(device);
}

}  // namespace ringlet::models
