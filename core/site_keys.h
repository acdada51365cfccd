// The keys of dropout's sites in the memory of one device. Kernels that read them there draw
// another mask at every step, with the same arguments. A step's work can therefore be captured once
// and replayed.
#pragma once

#include <unordered_map>
#include <vector>

#include "ringlet/core/random.h"
#include "ringlet/core/tensor.h"

namespace ringlet {

/// The source of keys for a thread's Generator (Generator::keys). Not for concurrent use. Work that
/// reads a key must be enqueued before the next fill().
class SiteKeys {
 public:
  static constexpr std::int64_t kMostSites = 4096;

  explicit SiteKeys(Device device) : keys_(empty({kMostSites}, DType::i64, device)) {}
  SiteKeys(const SiteKeys&) = delete;
  SiteKeys& operator=(const SiteKeys&) = delete;

  /// Uploads the keys of this step in one copy, for work that is enqueued after the call.
  void fill(std::uint64_t seed, std::uint64_t step);
  /// The address of the key of `site`, which never changes; a new site's key is uploaded
  /// separately. Throws unless the keys are those of this seed and step.
  const PhiloxKey* at(std::uint64_t seed, std::uint64_t step, std::uint32_t site);

 private:
  void upload(std::size_t begin);

  Tensor keys_;  // (kMostSites) a PhiloxKey each
  std::vector<std::uint32_t> sites_;
  std::unordered_map<std::uint32_t, std::size_t> places_;
  std::uint64_t seed_ = 0, step_ = 0;
  bool filled_ = false;
};

}  // namespace ringlet
