#include "ringlet/core/random.h"

namespace ringlet {

Generator& default_generator() {
  thread_local Generator generator;
  return generator;
}

}  // namespace ringlet
