#include "ringlet/train/parallel/model/same_rows.h"

#include "ringlet/comm/rows.h"
#include "ringlet/core/base/error.h"
#include "ringlet/train/data/draws.h"

namespace ringlet::train {
namespace {

std::uint64_t fingerprint(const models::PackedBatch& batch) {
  std::uint64_t hash = batch.dataset;
  for (const Tensor& part : {batch.cu_seqlens, batch.sentence_ids, batch.token_ids, batch.labels}) {
    if (!part) continue;
    const Tensor here = part.to(Device{});
    hash = mix64(hash, hash_text({reinterpret_cast<const char*>(here.bytes()), here.nbytes()}));
  }
  return hash;
}

}  // namespace

void check_same_rows(const comm::Group& group, int rank,
                     std::span<const models::PackedBatch> micro_batches) {
  if (group.size() == 1) return;
  std::vector<std::uint64_t> mine{static_cast<std::uint64_t>(rank)};
  for (const models::PackedBatch& batch : micro_batches) mine.push_back(fingerprint(batch));
  const auto all = comm::all_gather_values(group, mine);
  for (const std::vector<std::uint64_t>& other : all) {
    RINGLET_CHECK_EQ(other.size() - 1, mine.size() - 1,
                     "[mesh] micro-batches of a peer and the rank");
    for (std::size_t k = 1; k < mine.size(); ++k)
      RINGLET_CHECK(other[k] == all[0][k], "[mesh] ",
                    mine.size() == 2 ? "the micro-batch" : str("micro-batch ", k - 1), " of rank ",
                    other[0], " has other rows than that of rank ", all[0][0]);
  }
}

}  // namespace ringlet::train
