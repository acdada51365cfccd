// DP of losses over batches of sentences.
//
//   SentenceDataParallel parallel(loss, {Device::parse("cpu:0"), Device::parse("cpu:1")});
//   AdamW optimizer(loss);
//   for (const models::PackedBatch& batch : loader) {   // whole global batches
//     loss(batch).backward();                           // runs on all devices
//     optimizer.step();
//     optimizer.zero_grad();
//   }
#pragma once

#include <memory>
#include <vector>

#include "ringlet/models/losses/loss.h"
#include "ringlet/train/parallel/data_parallel.h"

namespace ringlet::train {

/// While it lives, a loss splits the rows of its batches over the devices, near-equal in tokens, as
/// a Loader splits them over ranks. Its value is the sum of theirs. Embeddings leave their device
/// only for a loss that compares the rows of all. Without gradients the transformers below split
/// their batches, so that encode and evaluators use all devices, with the bits of one. The module
/// need not be a loss then.
class SentenceDataParallel : public DataParallel {
 public:
  SentenceDataParallel(nn::Module& module, std::vector<Device> devices, Options options = {});

 private:
  std::vector<std::unique_ptr<models::BatchRunner>> runners_;
};

}  // namespace ringlet::train
