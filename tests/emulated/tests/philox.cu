// Philox as device code: one block of words.
#include "philox.h"

namespace ringlet::emulated {
namespace {

__global__ void philox_words(PhiloxBlock counter, PhiloxKey key, PhiloxBlock* out) {
  *out = philox(counter, key);
}

}  // namespace

PhiloxBlock philox_on_device(const PhiloxBlock& counter, const PhiloxKey& key) {
  PhiloxBlock* words = nullptr;
  cudaMalloc(&words, sizeof(PhiloxBlock));
  philox_words<<<1, 1>>>(counter, key, words);
  PhiloxBlock found{};
  cudaMemcpyAsync(&found, words, sizeof(found), cudaMemcpyDeviceToHost, nullptr);
  cudaFree(words);
  return found;
}

}  // namespace ringlet::emulated
