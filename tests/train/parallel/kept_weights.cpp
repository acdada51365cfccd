// Weights that do not change between two steps are packed once (core/ops/matmul.h). Strategies
// change parameters in several ways, but no product may use old ones.
#include <doctest/doctest.h>

#include "../step/graph_device.h"
#include "every_strategy.h"
#include "ringlet/core/tensor/dlpack.h"
#include "ringlet/train/parallel/model/sentence_data_parallel.h"

using namespace ringlet;
using namespace ringlet::train;

namespace {

const std::vector<std::string> kTexts{"a b c", "d c"};

std::vector<float> encode(const tiny::Model& model) {
  return model.encoder.encode(kTexts).to_vector();
}

/// Encodes three times: at first without cached weights, then with them.
void check_encodings(const tiny::Model& model, const tiny::Model& alone) {
  tiny::copy_weights(*model.loss, *alone.loss);
  const std::vector<float> expected = encode(alone);
  for (int use = 0; use < 3; ++use) {
    CAPTURE(use);
    CHECK(encode(model) == expected);
  }
}

/// Encodes after each of three steps, and after doubling every parameter.
void train_encoding(tiny::Model& model, const LoaderOptions& options) {
  const tiny::Model alone;
  tiny::Training training(model, options);
  check_encodings(model, alone);
  for (int step = 0; step < 3; ++step) {
    const std::vector<float> before = encode(model);
    training.step();
    CHECK(encode(model) != before);
    check_encodings(model, alone);
  }
  const auto sharding = nn::sharding_of(*model.loss);
  nn::WholeParameters whole(*model.loss);
  for (const nn::Parameter& parameter : model.loss->parameters()) {
    Tensor twice = whole(parameter).clone();
    axpby(twice, 1, twice.clone(), 1);
    if (sharding) {
      sharding->assign(parameter, twice);
    } else {
      parameter.mutable_tensor().copy_(twice);
    }
  }
  check_encodings(model, alone);
}

/// For a scope, tensors are made on `device`.
struct Here {
  explicit Here(Device device) : before(default_device()) { set_default_device(device); }
  ~Here() { set_default_device(before); }
  Here(const Here&) = delete;
  Here& operator=(const Here&) = delete;
  Device before;
};

/// The bytes cached for parameters on `device` after two steps in bf16, over all ranks.
std::size_t kept_in_bf16(
    tiny::Model& model, const LoaderOptions& options, Device device,
    const std::function<void()>& barrier = [] {}) {
  model.encoder.transformer()->set_compute_dtype(DType::bf16);
  tiny::Training training(model, options);
  for (int step = 0; step < 2; ++step) training.step();
  barrier();
  const std::size_t kept = memory_stats(device).sidecars;
  barrier();
  return kept;
}

}  // namespace

// Only a CPU caches these forms.
TEST_CASE("encoded again and again between steps, a model has the bits of one encoded once" *
          doctest::test_suite("host")) {
  {
    tiny::Model model;
    train_encoding(model, tiny::loader_options(0, 1));
    CHECK(memory_stats({}).sidecars > 0);
  }
  {
    tiny::Model model;
    const SentenceDataParallel parallel(*model.loss, tiny::devices(2));
    train_encoding(model, tiny::loader_options(0, 1));
    CHECK(memory_stats(tiny::devices(2)[1]).sidecars > 0);
  }
  CHECK(memory_stats({}).sidecars == 0);
  for (const tiny::Parallel& way : tiny::every_strategy()) {
    CAPTURE(way.name);
    const bool sharded = std::string(way.name).starts_with("FSDP");
    comm::launch(
        [&](const comm::Group& group) {
          tiny::Model model;
          const auto attached = way.attach(model, group);
          train_encoding(model, tiny::loader_options(group.rank(), group.size()));
          group.barrier();
          // FSDP's units are released after each forward, with their cached forms.
          CHECK((memory_stats({}).sidecars == 0) == sharded);
          group.barrier();
        },
        2, {.ranks = comm::Ranks::threads});
  }
}

TEST_CASE("an optimizer keeps parameters rounded where it has them all, and never of a share") {
  const GraphDevice graphs;
  const Here here(graphs.device);
  {
    tiny::Model model;
    CHECK(kept_in_bf16(model, tiny::loader_options(0, 1), graphs.device) ==
          nn::pack(*model.loss)->data().nbytes() / 2);
    CHECK(memory_stats(graphs.device).sidecars == 0);  // it is released with its optimizer
  }
  CHECK(memory_stats(graphs.device).sidecars == 0);
  for (const tiny::Parallel& way : tiny::every_strategy()) {
    CAPTURE(way.name);
    comm::launch(
        [&](const comm::Group& group) {
          tiny::Model model;
          const auto attached = way.attach(model, group);
          const auto options = tiny::loader_options(group.rank(), group.size());
          CHECK(kept_in_bf16(model, options, graphs.device, [&] { group.barrier(); }) == 0);
        },
        2, {.ranks = comm::Ranks::threads});
  }
}

TEST_CASE("a write by another library to a parameter reaches every device of a DataParallel" *
          doctest::test_suite("host")) {
  tiny::Model model;
  const tiny::Model alone;
  const SentenceDataParallel parallel(*model.loss, tiny::devices(2));
  check_encodings(model, alone);
  REQUIRE(memory_stats(tiny::devices(2)[1]).sidecars > 0);
  for (const nn::Parameter& parameter : model.loss->parameters()) {
    if (parameter.dim() != 2) continue;
    dlpack::DLManagedTensor* shared = dlpack::to_dlpack(parameter.tensor());
    static_cast<float*>(shared->dl_tensor.data)[0] += 0.5f;
    shared->deleter(shared);
  }
  check_encodings(model, alone);
}
