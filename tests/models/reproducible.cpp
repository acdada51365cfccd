// A whole step has the same bits in every run, with any number of threads.
#include <doctest/doctest.h>

#include "oracle_batch.h"
#include "ringlet/core/tensor/random.h"
#include "ringlet/core/threads/parallel.h"

using namespace ringlet;
using namespace ringlet::models;

namespace {

std::vector<std::vector<float>> step(const std::string& name, DType dtype, int threads) {
  const GeneratorGuard random({.seed = 7, .step = 3});
  const SentenceEncoder encoder = with_dropout(name);
  encoder.transformer()->set_compute_dtype(dtype);
  SoftmaxLoss loss(encoder, 3);
  set_threads_per_device(threads);
  auto all = bits_of(loss_and_gradients(loss, pair_batch(Oracle(name), 0)));
  set_threads_per_device(0);
  return all;
}

}  // namespace

TEST_CASE("loss and gradients have the same bits run to run, on any number of threads") {
  for (const char* name : {"bert", "mpnet"})
    for (const DType dtype : {DType::f32, DType::bf16}) {
      CAPTURE(name);
      CAPTURE(dtype);
      const auto expected = step(name, dtype, 1);
      CHECK(expected.size() > 20);
      for (const int threads : {1, 2, 3, 7}) {
        CAPTURE(threads);
        CHECK(step(name, dtype, threads) == expected);
      }
    }
}
