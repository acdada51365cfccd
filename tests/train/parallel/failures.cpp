// Callers that catch what a step has thrown, and go on: where that is safe they may, elsewhere they
// are told why not.
#include <doctest/doctest.h>

#include <cmath>

#include "every_strategy.h"
#include "ringlet/train/parallel/data_parallel.h"

using namespace ringlet;
using namespace ringlet::train;

namespace {

/// The same rows with a token that no vocabulary has: the embedding refuses it, three modules deep.
models::PackedBatch broken(models::PackedBatch batch) {
  batch.token_ids = batch.token_ids.clone();
  batch.token_ids.mutable_data<std::int32_t>()[batch.tokens() - 1] = 1 << 20;
  return batch;
}

/// As tiny::train_rank, but each step has its batch twice, broken at first.
void train_through_failures(tiny::Model& model, const LoaderOptions& options) {
  AdamW optimizer(*model.loss, tiny::adamw());
  Loader loader(tiny::datasets(), model.encoder.tokenizer(), options);
  for (int step = 0; step < tiny::kSteps; ++step) {
    const models::PackedBatch batch = tiny::next(loader);
    // A loss of another data set, too: it must not count as one that ran.
    for (std::size_t dataset = 0; dataset < 3; ++dataset) {
      models::PackedBatch bad = broken(batch);
      bad.dataset = dataset;
      CHECK_THROWS_AS((*model.loss)(bad), Error);
    }
    (*model.loss)(batch).backward();
    optimizer.step();
    optimizer.zero_grad();
  }
}

/// A loss with a hook that throws when the gradient of the middle layer is complete, `times` times.
struct Thrower {
  Thrower(const tiny::Model& model, int times)
      : hook(model.loss->parameter("encoder.layer.1.output.dense.weight")
                 .register_ready_hook([times]() mutable {
                   if (times-- > 0) fail("the hook throws");
                 })) {}
  autograd::HookHandle hook;
};

template <class Body>
void check_refused(const Body& body) {
  std::string said;
  try {
    body();
  } catch (const Error& error) {
    said = error.what();
  }
  CHECK(
      said.ends_with("] a backward threw before its end: there is no gradient to go on from, "
                     "and ranks may have gone apart; start again from a checkpoint"));
}

}  // namespace

TEST_CASE("forwards that threw on all ranks leave no trace in what follows") {
  const tiny::Bits expected = tiny::virtual_ranks(2);
  for (const tiny::Parallel& strategy : tiny::every_strategy()) {
    CAPTURE(strategy.name);
    const auto ranks = tiny::run(2, {}, [&](tiny::Model& model, const comm::Group& group) {
      const tiny::Attached attached = strategy.attach(model, group);
      train_through_failures(model, tiny::loader_options(group.rank(), 2));
    });
    for (const tiny::Bits& bits : ranks) CHECK(bits == expected);
  }
  tiny::Model model;
  const DataParallel parallel(*model.loss, {Device::parse("cpu:0"), Device::parse("cpu:1")});
  LoaderOptions options = tiny::loader_options(0, 1);
  options.batch_size = 2 * tiny::kRows;
  train_through_failures(model, options);
  CHECK(tiny::bits(*model.loss) == expected);
}

TEST_CASE("a forward that threw keeps no unit whole under FSDP") {
  tiny::run(2, {}, [](tiny::Model& model, const comm::Group& group) {
    const FullySharded parallel(*model.loss, group, {.poison = true});
    Loader loader(tiny::datasets(), model.encoder.tokenizer(),
                  tiny::loader_options(group.rank(), 2));
    const models::PackedBatch batch = broken(tiny::next(loader));
    const auto before = group.stats().collectives;
    CHECK_THROWS_AS((*model.loss)(batch), Error);
    CHECK(group.stats().collectives > before);
    for (const nn::Parameter& parameter : model.loss->parameters())
      CHECK(std::isnan(parameter.tensor().to_vector()[0]));
  });
}

TEST_CASE("after a backward that threw the strategy refuses to go on, and says why") {
  for (const tiny::Parallel& strategy : tiny::every_strategy()) {
    CAPTURE(strategy.name);
    tiny::run(2, {}, [&](tiny::Model& model, const comm::Group& group) {
      const tiny::Attached attached = strategy.attach(model, group);
      AdamW optimizer(*model.loss, tiny::adamw());
      Loader loader(tiny::datasets(), model.encoder.tokenizer(),
                    tiny::loader_options(group.rank(), 2));
      const models::PackedBatch batch = tiny::next(loader);
      const Thrower thrower(model, 1);
      const Variable value = (*model.loss)(batch);
      CHECK_THROWS_WITH_AS(value.backward(), "the hook throws", Error);
      check_refused([&] { optimizer.step(); });
      optimizer.zero_grad();
      check_refused([&] { (*model.loss)(batch).backward(); });
      group.barrier();  // the group itself is well: all ranks threw at the same place
    });
  }
}

TEST_CASE("a backward that threw leaves no gradients on any device of a DataParallel") {
  const auto train = [](bool throws) {
    tiny::Model model;
    const DataParallel parallel(*model.loss, {Device::parse("cpu:0"), Device::parse("cpu:1")});
    AdamW optimizer(*model.loss, tiny::adamw());
    Loader loader(tiny::datasets(), model.encoder.tokenizer(), tiny::loader_options(0, 1));
    const models::PackedBatch batch = tiny::next(loader);
    if (throws) {
      const Variable value = (*model.loss)(batch);
      model.loss->arena()->data().storage()->bump_version();  // written to: backward notices
      CHECK_THROWS_AS(value.backward(), Error);
      for (const nn::Parameter& parameter : model.loss->parameters())
        CHECK_FALSE(parameter.grad().defined());
    }
    (*model.loss)(batch).backward();
    optimizer.step();
    return tiny::bits(*model.loss);
  };
  CHECK(train(true) == train(false));
}
