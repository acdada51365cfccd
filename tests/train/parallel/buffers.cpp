// Buffers under every strategy: a forward starts from those of the first rank or device.
#include <doctest/doctest.h>

#include <mutex>
#include <set>

#include "every_strategy.h"
#include "ringlet/autograd/functions.h"
#include "ringlet/train/parallel/model/sentence_data_parallel.h"

using namespace ringlet;
using namespace ringlet::train;

namespace {

/// Its buffer counts forwards, by `by` each.
struct Counting : nn::Layer<Counting> {
  explicit Counting(int by) : by(by) {}
  bool is_unit() const override { return true; }
  Variable forward(const Variable& x) {
    seen = calls.item();
    calls.mutable_tensor().fill_(seen + static_cast<float>(by));
    return autograd::mul(x, weight);
  }
  int by;
  float seen = -1;
  nn::Parameter weight = register_parameter("weight", ones({8}));
  nn::Buffer calls = register_buffer("calls", zeros({1}));
};

/// A loss that counts its forwards; copies count wrongly.
struct CountingLoss : models::Loss {
  explicit CountingLoss(std::shared_ptr<models::Loss> inner, float by = 1)
      : inner(register_module("", std::move(inner))), by(by) {}
  std::shared_ptr<nn::Module> blank_copy(nn::Cloner& cloner) const override {
    auto copy = std::make_shared<CountingLoss>(cloner(inner), 5.f);
    copy->original = this;
    return copy;
  }
  Variable forward(const models::PackedBatch& batch) override {
    const float seen = calls.item();
    (original ? original : this)->see(seen);
    calls.mutable_tensor().fill_(seen + by);
    return (*inner)(batch);
  }
  std::shared_ptr<models::Loss> inner;
  const CountingLoss* original = nullptr;
  float by;
  std::function<void(float)> see;
  nn::Buffer calls = register_buffer("calls", zeros({1}));
};

}  // namespace

TEST_CASE("a buffer is rank 0's at the start of every forward that backward may follow") {
  const auto all = tiny::each_strategy();
  for (std::size_t i = 0; i < all.size(); ++i) {
    CAPTURE(i);
    comm::launch(
        [&](const comm::Group& group) {
          Counting module(1 + group.rank());
          const auto strategy = all[i](module, group);
          for (int step = 0; step < 3; ++step) {
            autograd::sum(module(Variable(ones({8})))).backward();
            CHECK(module.seen == step);
            // A forward on one rank alone needs no peers; FSDP's forwards are collective.
            const autograd::NoGrad no_grad;
            if (i < 3 && group.rank() == 1) module(Variable(ones({8})));
          }
        },
        3, {.ranks = comm::Ranks::threads});
  }
}

TEST_CASE("replicas start every forward from the first device's buffers") {
  tiny::Model model;
  const auto loss = std::make_shared<CountingLoss>(model.loss);
  const SentenceDataParallel parallel(*loss, tiny::devices(2));
  Loader loader(tiny::datasets(), model.encoder.tokenizer(), tiny::loader_options(0, 1));
  std::set<float> seen;
  loss->see = [&, mutex = std::make_shared<std::mutex>()](float value) {
    const std::lock_guard lock(*mutex);
    seen.insert(value);
  };
  for (const float step : {0.f, 1.f, 2.f}) {
    seen.clear();
    (*loss)(tiny::next(*loss, loader)).backward();
    CHECK(seen == std::set<float>{step});
    loss->zero_grad();
  }
}
