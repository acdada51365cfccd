// The generator from which random ops and dropout draw; core/base/philox.h has the words.
#pragma once

#include <unordered_map>
#include <vector>

#include "ringlet/core/base/philox.h"
#include "ringlet/core/tensor/tensor.h"

namespace ringlet {

/// The keys of dropout's sites in the memory of one device. Kernels that read them there draw
/// another mask at every step, with the same arguments. A step's work can therefore be captured
/// once and replayed. Not for concurrent use. Work that reads a key must be enqueued before the
/// next fill().
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

/// The state from which this thread's random ops draw by default.
struct RandomGenerator {
  std::uint64_t seed = 0;
  std::uint64_t step = 0;   // of training; every step has different masks
  std::uint32_t draws = 0;  // tensors drawn by uniform() and normal() in this step
  /// Keys for dropout in device memory; null: kernels get them as arguments.
  SiteKeys* keys = nullptr;

  void manual_seed(std::uint64_t value) {
    seed = value;
    set_step(0);
  }
  void set_step(std::uint64_t value) {
    step = value;
    draws = 0;
  }
  void next_step() { set_step(step + 1); }
  DropoutKey dropout_key(float p, std::uint32_t site) const;
  /// The key of the next tensor.
  PhiloxKey next_key() { return derive_key(seed, step, draws++, RandomUse::tensor); }
};

RandomGenerator& default_generator();  // of this thread
inline void manual_seed(std::uint64_t seed) { default_generator().manual_seed(seed); }

/// Sets this thread's generator and restores the former one at the end of the scope.
class GeneratorGuard {
 public:
  explicit GeneratorGuard(RandomGenerator generator) : saved_(default_generator()) {
    default_generator() = generator;
  }
  ~GeneratorGuard() { default_generator() = saved_; }
  GeneratorGuard(const GeneratorGuard&) = delete;
  GeneratorGuard& operator=(const GeneratorGuard&) = delete;

 private:
  RandomGenerator saved_;
};

}  // namespace ringlet
