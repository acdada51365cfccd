// The keys of dropout's sites in the memory of one device. Kernels that read them there draw
// another mask at every step although they are called alike, so that a step's work may be recorded
// once and done again.
#pragma once

#include <unordered_map>
#include <vector>

#include "ringlet/core/random.h"
#include "ringlet/core/tensor.h"

namespace ringlet {

/// A thread's Generator hands them out while it has one of these (Generator::keys). Not for several
/// threads; what reads a key must have been queued before the next fill().
class SiteKeys {
 public:
  static constexpr std::int64_t kMostSites = 4096;

  explicit SiteKeys(Device device) : keys_(empty({kMostSites}, DType::i64, device)) {}
  SiteKeys(const SiteKeys&) = delete;
  SiteKeys& operator=(const SiteKeys&) = delete;

  /// Makes them those of this step, in one upload, for what is queued from here on.
  void fill(std::uint64_t seed, std::uint64_t step);
  /// Where the key of `site` lies, always the same place; a new site's key is uploaded alone.
  /// Throws unless the keys are those of this step.
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
