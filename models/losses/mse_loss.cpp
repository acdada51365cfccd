#include "ringlet/models/losses/mse_loss.h"

#include "ringlet/autograd/functions/reduce.h"
#include "ringlet/models/losses/columns.h"

namespace ringlet::models {

Variable MSELoss::of_embeddings(const Variable& embeddings, const PackedBatch& batch) const {
  const std::int64_t width = embeddings.size(1);
  RINGLET_CHECK(batch.labels.defined(), "[MSELoss] the batch has no embeddings of a teacher");
  check_shape("MSELoss", "the teacher's embeddings", batch.labels, {batch.rows, width});
  const Variable labels(batch.labels.to(embeddings.dtype()).view({1, batch.rows, width}));
  const Variable error = autograd::view(embeddings, {batch.columns, batch.rows, width}) - labels;
  return autograd::sum(autograd::square(error)) /
         static_cast<double>(batch.global_rows * batch.columns * width);
}

}  // namespace ringlet::models
