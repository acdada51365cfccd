// The batches, model and loss of a rank: random ids with the histogram's lengths, three labels.
#pragma once

#include "lengths.h"
#include "options.h"
#include "ringlet/models/losses/softmax_loss.h"
#include "ringlet/models/sentence_encoder.h"

namespace ringlet::bench {

/// The requested part of each global batch: rank's of `ranks`, each with `devices` devices of
/// options.batch pairs.
struct Share {
  int rank = 0;
  int ranks = 1;
  int devices = 1;
};

/// `options` outlives it.
class Source {
 public:
  Source(const ThroughputOptions& options, Share share);

  models::SentenceEncoder& model() { return model_; }
  models::Loss& loss() { return loss_; }
  /// The next batch; valid until the next call.
  const models::PackedBatch& next();

 private:
  const ThroughputOptions& options_;
  Share share_;
  Lengths lengths_;
  models::SentenceEncoder model_;
  models::SoftmaxLoss loss_;
  std::int64_t step_ = 0;
  models::PackedBatch batch_;
};

}  // namespace ringlet::bench
