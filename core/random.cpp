#include "ringlet/core/random.h"

#include "ringlet/core/site_keys.h"

namespace ringlet {

DropoutKey Generator::dropout_key(float p, std::uint32_t site) const {
  return {p, seed, step, site, keys && p > 0 ? keys->at(seed, step, site) : nullptr};
}

Generator& default_generator() {
  thread_local Generator generator;
  return generator;
}

}  // namespace ringlet
