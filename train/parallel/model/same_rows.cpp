#include "ringlet/train/parallel/model/same_rows.h"

#include <cstring>

#include "ringlet/core/base/error.h"
#include "ringlet/train/data/hash.h"

namespace ringlet::train {
namespace {

std::uint64_t fingerprint(const models::PackedBatch& batch) {
  std::uint64_t hash = batch.dataset;
  for (const Tensor& part : {batch.cu_seqlens, batch.sentence_ids, batch.token_ids, batch.labels})
    if (part)
      hash = mix64(hash, hash_text({reinterpret_cast<const char*>(part.bytes()), part.nbytes()}));
  return hash;
}

}  // namespace

void check_same_rows(const comm::Group& group, int rank,
                     std::span<const models::PackedBatch> micro_batches) {
  if (group.size() == 1) return;
  std::vector<std::uint64_t> mine{static_cast<std::uint64_t>(rank)};
  for (const models::PackedBatch& batch : micro_batches) mine.push_back(fingerprint(batch));
  const std::size_t nbytes = mine.size() * sizeof(mine[0]);
  std::vector<std::vector<std::uint64_t>> all;
  for (const std::string& each :
       group.all_gather_bytes({reinterpret_cast<const char*>(mine.data()), nbytes})) {
    RINGLET_CHECK_EQ(each.size(), nbytes, "[mesh] bytes of the micro-batches of a peer");
    std::memcpy(all.emplace_back(mine.size()).data(), each.data(), nbytes);
  }
  for (const std::vector<std::uint64_t>& other : all)
    for (std::size_t k = 1; k < mine.size(); ++k)
      RINGLET_CHECK(other[k] == all[0][k], "[mesh] ",
                    mine.size() == 2 ? "the micro-batch" : str("micro-batch ", k - 1), " of rank ",
                    other[0], " has other rows than that of rank ", all[0][0]);
}

}  // namespace ringlet::train
