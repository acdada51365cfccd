// Callers that catch an exception of a step and continue: allowed where it is safe, otherwise an
// error explains why not.
#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <memory>
#include <optional>
#include <thread>

#include "every_strategy.h"
#include "ringlet/autograd/functions.h"
#include "ringlet/train/parallel/model/sentence_data_parallel.h"

using namespace ringlet;
using namespace ringlet::train;

namespace {

/// The same rows with a token outside every vocabulary: the embedding rejects it, three modules
/// deep.
models::PackedBatch broken(models::PackedBatch batch) {
  batch.token_ids = batch.token_ids.clone();
  batch.token_ids.mutable_data<std::int32_t>()[batch.tokens() - 1] = 1 << 20;
  return batch;
}

/// tiny::train_rank, but each step runs its batch twice, broken at first.
void train_through_failures(tiny::Model& model, const LoaderOptions& options) {
  tiny::Training training(model, options);
  for (int step = 0; step < tiny::kSteps; ++step) {
    const models::PackedBatch batch = training.next();
    // Also the loss of another data set: it must not count as executed.
    for (std::size_t dataset = 0; dataset < 3; ++dataset) {
      models::PackedBatch bad = broken(batch);
      bad.dataset = dataset;
      CHECK_THROWS_AS((*model.loss)(bad), Error);
    }
    (*model.loss)(batch).backward();
    training.update();
  }
}

/// Throws around the strategy's hook, at the armed module.
class Tripwire {
 public:
  enum Place { nowhere, before_pre, behind_pre, before_post, behind_post };

  explicit Tripwire(nn::Module& module) {
    const nn::ModuleHooks there = module.strategy_hooks();
    const auto around = [this](const std::function<void(nn::Module&)>& hook, Place before,
                               Place behind) {
      return [this, hook, before, behind](nn::Module& at) {
        if (armed == before) fail("the hook throws");
        if (hook) hook(at);
        if (armed == behind) fail("the hook throws");
      };
    };
    module.set_strategy_hooks({around(there.pre_forward, before_pre, behind_pre),
                               around(there.post_forward, before_post, behind_post),
                               there.pre_backward, there.forward_failed});
  }
  Tripwire(const Tripwire&) = delete;
  Tripwire& operator=(const Tripwire&) = delete;

  Place armed = nowhere;
};

/// tiny::train_rank, but hooks throw first in each step: the outermost module's, a loss's or a
/// layer's.
void train_through_hooks(tiny::Model& model, const LoaderOptions& options) {
  std::map<const nn::Module*, std::unique_ptr<Tripwire>> wires;
  const nn::Module* layer = nullptr;  // the last
  model.loss->visit([&](const std::string&, nn::Module& below) {
    if (below.is_unit()) layer = &below;
    if (below.is_unit() || dynamic_cast<models::Loss*>(&below))
      if (!wires.contains(&below)) wires[&below] = std::make_unique<Tripwire>(below);
  });
  tiny::Training training(model, options);
  for (int step = 0; step < tiny::kSteps; ++step) {
    const models::PackedBatch batch = training.next();
    // The first two data sets are equal: a loss that completed in a failed step must not count.
    models::PackedBatch other = batch;
    if (batch.dataset < 2) other.dataset = 1 - batch.dataset;
    const std::vector<const nn::Module*> entered{model.loss.get(), &model.loss->loss_of(other),
                                                 layer};
    Tripwire& wire = *wires.at(entered[static_cast<std::size_t>(step) % entered.size()]);
    for (int place = Tripwire::before_pre; place <= Tripwire::behind_post; ++place) {
      wire.armed = static_cast<Tripwire::Place>(place);
      CHECK_THROWS_WITH_AS((*model.loss)(other), "the hook throws", Error);
    }
    wire.armed = Tripwire::nowhere;
    (*model.loss)(batch).backward();
    training.update();
  }
}

/// y = x w; forward calls `look`.
struct Scale : nn::Layer<Scale> {
  static constexpr std::int64_t kSize = 2 * 4096;
  bool is_unit() const override { return true; }
  Variable forward(const Variable& x) {
    if (look) look();
    return autograd::mul(x, weight);
  }
  std::function<void()> look;
  nn::Parameter weight = register_parameter("weight", ones({kSize}));
};

struct Chain : nn::Layer<Chain> {
  Variable forward(const Variable& x) {
    const Variable y = (*first)(x);
    return autograd::sum(first_alone ? y : (*second)(y));
  }
  bool first_alone = false;
  std::shared_ptr<Scale> first = register_module("first", std::make_shared<Scale>());
  std::shared_ptr<Scale> second = register_module("second", std::make_shared<Scale>());
};

/// A loss with a hook that throws when the gradient of the middle layer is complete, `times` times.
struct Thrower {
  Thrower(const tiny::Model& model, int times)
      : hook(model.loss->parameter("encoder.layer.1.output.dense.weight")
                 .register_ready_hook([times]() mutable {
                   if (times-- > 0) fail("the hook throws");
                 })) {}
  autograd::HookHandle hook;
};

void check_refused(const std::function<void()>& body) {
  CHECK(message_of(body).ends_with(
      "] a backward threw before its end: there is no gradient to go on from, "
      "and ranks may have gone apart; start again from a checkpoint"));
}

}  // namespace

// A GPU does not check ids.
TEST_CASE("forwards that threw on all ranks leave no trace in what follows" *
          doctest::test_suite("host")) {
  const tiny::Bits expected = tiny::virtual_ranks(2);
  for (const tiny::Parallel& strategy : tiny::every_strategy()) {
    CAPTURE(strategy.name);
    const auto ranks = tiny::run(2, {}, [&](tiny::Model& model, const comm::Group& group) {
      const auto attached = strategy.attach(model, group);
      train_through_failures(model, tiny::loader_options(group.rank(), 2));
    });
    for (const tiny::Bits& bits : ranks) CHECK(bits == expected);
  }
  tiny::Model model;
  const SentenceDataParallel parallel(*model.loss, tiny::devices(2));
  train_through_failures(model, tiny::whole_batches(2));
  CHECK(tiny::bits(*model.loss) == expected);
}

TEST_CASE("hooks that threw leave no trace either") {
  const tiny::Bits expected = tiny::virtual_ranks(2);
  for (const tiny::Parallel& strategy :
       {tiny::parallel<DistributedDataParallel>("DDP", {}),
        tiny::parallel<FullySharded>("FSDP", {}),
        tiny::parallel<FullySharded>("FSDP, parameters kept, layers recomputed",
                                     {.reshard_after_forward = false}, true)}) {
    CAPTURE(strategy.name);
    const auto ranks = tiny::run(2, {}, [&](tiny::Model& model, const comm::Group& group) {
      const auto attached = strategy.attach(model, group);
      train_through_hooks(model, tiny::loader_options(group.rank(), 2));
    });
    for (const tiny::Bits& bits : ranks) CHECK(bits == expected);
  }
}

TEST_CASE("a user's hooks run inside every strategy's, and stay when it goes") {
  for (const auto& attach : tiny::each_strategy())
    comm::launch(
        [&](const comm::Group& group) {
          Chain chain;
          std::string log;
          const auto set_hooks = [&](const std::string& name) {
            const auto hook = [&, name](const char* place) {
              return [&log, text = name + place](nn::Module& at) {
                // Under FSDP an error unless the strategy holds it whole.
                CHECK(at.parameter("weight").tensor().numel() == Scale::kSize);
                CHECK(at.parameter("weight").tensor().to_vector().size() == Scale::kSize);
                log += text;
              };
            };
            chain.first->set_hooks({hook("pre "), hook("post "), hook("backward ")});
          };
          const auto run = [&] {
            log.clear();
            chain(Variable(ones({Scale::kSize}))).backward();
            return log;
          };
          set_hooks("a.");
          {
            const tiny::Attached attached = attach(chain, group);
            CHECK(run() == "a.pre a.post a.backward ");
            set_hooks("b.");
            CHECK(run() == "b.pre b.post b.backward ");
          }
          log.clear();
          chain(Variable(ones({Scale::kSize})));
          CHECK(log == "b.pre b.post ");
        },
        2, {.ranks = comm::Ranks::threads});
}

TEST_CASE("a module has whole gradients again when its strategy has gone") {
  for (const int stage : {1, 2})
    comm::launch(
        [&](const comm::Group& group) {
          Chain chain;
          const auto run = [&] { chain(Variable(ones({Scale::kSize}))).backward(); };
          {
            const ShardedDataParallel attached(chain, group, {stage});
            run();
          }
          for (const nn::Parameter& parameter : chain.parameters()) parameter.zero_grad();
          run();
          const std::vector<float> expected(Scale::kSize, 1);
          for (const nn::Parameter& parameter : chain.parameters())
            CHECK(parameter.grad().to_vector() == expected);
        },
        2, {.ranks = comm::Ranks::threads});
}

TEST_CASE("the end of ZeRO-2 takes no memory") {
  comm::launch(
      [](const comm::Group& group) {
        Chain chain;
        std::optional<ShardedDataParallel> attached;
        attached.emplace(chain, group, ShardedDataParallelOptions{2});
        chain(Variable(ones({Scale::kSize}))).backward();
        reset_peak_memory(default_device());
        const std::size_t before = memory_stats(default_device()).peak;
        attached.reset();
        CHECK_EQ(memory_stats(default_device()).peak, before);
      },
      1);
}

// The first unit is complete when rank 0 gives up in it. The gather of the second is queued after a
// collective that rank 1 starts later.
TEST_CASE("no write overtakes a gather without a wait") {
  std::vector<comm::TransportKind> kinds{comm::TransportKind::thread};
  if (default_device().type == DeviceType::cpu) kinds.push_back(comm::TransportKind::shm);
  for (const comm::TransportKind kind : kinds) {
    comm::launch(
        [](const comm::Group& group) {
          const bool gives_up = group.rank() == 0;
          const Tensor x = ones({Scale::kSize}), sum = ones({1});
          Chain chain;
          const FullySharded fsdp(chain, group, {.reshard_after_forward = false});
          chain.first_alone = true;
          chain(Variable(x));
          chain.first_alone = false;
          if (!gives_up) std::this_thread::sleep_for(std::chrono::milliseconds(200));
          const comm::Work behind = group.all_reduce(sum);
          std::vector<float> seen;
          if (gives_up) chain.first->look = [] { fail("rank 0 gives up"); };
          chain.second->look = [&] {
            seen = chain.second->weight.tensor().to_vector();
            fail("rank 1 has seen enough");
          };
          CHECK_THROWS_AS(chain(Variable(x)), Error);
          // As in loading a checkpoint. An optimizer's step first needs the norm from all ranks.
          nn::sharding_of(chain)->assign(chain.second->weight, full({Scale::kSize}, 5));
          CHECK(seen.empty() == gives_up);
          CHECK(std::all_of(seen.begin(), seen.end(), [](float value) { return value == 1; }));
          behind.wait();
          group.barrier();
        },
        2, {.ranks = comm::Ranks::threads, .group = {.transport = kind}});
  }
}

TEST_CASE("a forward that threw keeps no unit whole under FSDP" * doctest::test_suite("host")) {
  tiny::run(2, {}, [](tiny::Model& model, const comm::Group& group) {
    const FullySharded parallel(*model.loss, group, {});
    const models::PackedBatch batch = broken(tiny::Training(model, group).next());
    const auto before = group.stats().collectives;
    CHECK_THROWS_AS((*model.loss)(batch), Error);
    CHECK(group.stats().collectives > before);
    for (const nn::Parameter& parameter : model.loss->parameters())
      CHECK_THROWS_WITH_AS(parameter.tensor().to_vector(), doctest::Contains("but its parameter '"),
                           Error);
  });
}

TEST_CASE("after a backward that threw the strategy refuses to go on, and says why") {
  for (const tiny::Parallel& strategy : tiny::every_strategy()) {
    CAPTURE(strategy.name);
    tiny::run(2, {}, [&](tiny::Model& model, const comm::Group& group) {
      const auto attached = strategy.attach(model, group);
      tiny::Training training(model, group);
      const models::PackedBatch batch = training.next();
      const Thrower thrower(model, 1);
      const Variable value = (*model.loss)(batch);
      CHECK_THROWS_WITH_AS(value.backward(), "the hook throws", Error);
      check_refused([&] { training.optimizer.step(); });
      training.optimizer.zero_grad();
      check_refused([&] { (*model.loss)(batch).backward(); });
      group.barrier();  // the group itself is intact: all ranks threw at the same point
    });
  }
}

TEST_CASE("a backward that threw leaves no gradients on any device of a DataParallel") {
  const auto train = [](bool throws) {
    tiny::Model model;
    const SentenceDataParallel parallel(*model.loss, tiny::devices(2));
    tiny::Training training(model, tiny::loader_options(0, 1));
    const models::PackedBatch batch = training.next();
    if (throws) {
      const Variable value = (*model.loss)(batch);
      model.loss->arena()->data().storage()->bump_version();  // backward detects the write
      CHECK_THROWS_AS(value.backward(), Error);
      for (const nn::Parameter& parameter : model.loss->parameters())
        CHECK_FALSE(parameter.grad().defined());
    }
    (*model.loss)(batch).backward();
    training.optimizer.step();
    return tiny::bits(*model.loss);
  };
  CHECK(train(true) == train(false));
}
