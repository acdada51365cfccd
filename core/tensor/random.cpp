#include "ringlet/core/tensor/random.h"

#include <cstring>

namespace ringlet {

void SiteKeys::fill(std::uint64_t seed, std::uint64_t step) {
  seed_ = seed;
  step_ = step;
  filled_ = true;
  upload(0);
}

const PhiloxKey* SiteKeys::at(std::uint64_t seed, std::uint64_t step, std::uint32_t site) {
  RINGLET_CHECK(filled_ && seed_ == seed && step_ == step, "[dropout] the device has the keys of ",
                filled_ ? str("seed ", seed_, ", step ", step_) : "no step", ", not of seed ", seed,
                ", step ", step);
  const auto place = places_.try_emplace(site, sites_.size()).first->second;
  if (place == sites_.size()) {
    RINGLET_CHECK(place < static_cast<std::size_t>(kMostSites), "[dropout] more than ", kMostSites,
                  " sites");
    sites_.push_back(site);
    upload(place);
  }
  return reinterpret_cast<const PhiloxKey*>(keys_.data<std::int64_t>()) + place;
}

// Uploads the keys of the sites from index `begin` on.
void SiteKeys::upload(std::size_t begin) {
  static_assert(sizeof(PhiloxKey) == sizeof(std::int64_t));
  std::vector<std::int64_t> keys(sites_.size() - begin);
  for (std::size_t i = 0; i < keys.size(); ++i) {
    const PhiloxKey key = derive_key(seed_, step_, sites_[begin + i]);
    std::memcpy(&keys[i], &key, sizeof(key));
  }
  const auto first = static_cast<std::int64_t>(begin), n = static_cast<std::int64_t>(keys.size());
  keys_.slice(first, first + n).copy_(tensor(keys, {n}, Device{}));
}

DropoutKey RandomGenerator::dropout_key(float p, std::uint32_t site) const {
  return {p, seed, step, site, keys && p > 0 ? keys->at(seed, step, site) : nullptr};
}

RandomGenerator& default_generator() {
  thread_local RandomGenerator generator;
  return generator;
}

}  // namespace ringlet
