// One equality: every strategy gives the same bits as ranks that run sequentially on one device,
// for the same number of ranks and global batches.
#include <doctest/doctest.h>

#include "every_strategy.h"
#include "ringlet/ringlet.h"
#include "ringlet/tests/comm/ranks.h"
#include "ringlet/tests/extended.h"

using namespace ringlet;
using namespace ringlet::train;

namespace {

const tiny::Bits& expected(int n) {
  static std::map<int, tiny::Bits> known;
  if (!known.contains(n)) known[n] = tiny::virtual_ranks(n);
  return known[n];
}

/// The training of one rank under a strategy.
tiny::TrainRank training(const tiny::Parallel& parallel, const tiny::Backwards& backwards) {
  return [=](tiny::Model& model, const comm::Group& group) {
    const auto attached = parallel.attach(model, group);
    tiny::train_rank(model, tiny::loader_options(group.rank(), group.size()), backwards);
  };
}

}  // namespace

TEST_CASE("under direct every strategy ends with the same bits, whatever moves them") {
  for (const comm::TransportKind transport : comm::transports()) {
    for (const int n : grid({2, 3}, {4})) {
      for (const tiny::Parallel& parallel : tiny::every_strategy()) {
        CAPTURE(name(transport));
        CAPTURE(n);
        CAPTURE(parallel.name);
        const auto ranks =
            tiny::run(n, {.transport = transport, .algorithm = comm::Algorithm::direct},
                      training(parallel, {false}));
        for (const tiny::Bits& bits : ranks) CHECK(bits == expected(n));
      }
    }
  }
}

// Blocks of a power of two are nodes of the tree over all ranks.
TEST_CASE("hybrid shards have the bits of the other strategies") {
  const tiny::Backwards backwards{false, true, false};
  const tiny::Bits bits = tiny::virtual_ranks(4, backwards);
  for (const int block : {1, 2}) {
    for (const bool reshard : {true, false}) {
      CAPTURE(block);
      CAPTURE(reshard);
      const auto hybrid = tiny::parallel<FullySharded>(
          "FSDP, replicated", {.reshard_after_forward = reshard, .shard_size = block});
      for (const tiny::Bits& of_rank : tiny::run(4, {}, training(hybrid, backwards)))
        CHECK(of_rank == bits);
    }
  }
  const auto uneven = tiny::parallel<FullySharded>("", {.shard_size = 3});
  CHECK_THROWS_WITH_AS(tiny::run(4, {}, training(uneven, {false})),
                       doctest::Contains("fsdp_shard_size: expected a divisor of 4 ranks, found 3"),
                       InputError);
}

TEST_CASE("several backwards of a step add up, under every strategy") {
  const tiny::Backwards backwards{false, true, false};
  for (const int n : grid({3}, {2})) {
    const tiny::Bits bits = tiny::virtual_ranks(n, backwards);
    for (const tiny::Parallel& parallel : tiny::every_strategy()) {
      CAPTURE(n);
      CAPTURE(parallel.name);
      for (const tiny::Bits& of_rank : tiny::run(n, {}, training(parallel, backwards)))
        CHECK(of_rank == bits);
    }
  }
}

TEST_CASE("parameters that are frozen after wrapping and thawed later follow requires_grad") {
  using Names = std::function<bool(const std::string&)>;
  const std::vector<Names> frozen{
      // Backward needs these after the layer's last gradient.
      [](const std::string& name) { return name.find("attention") != std::string::npos; },
      [](const std::string& name) { return name.starts_with("encoder.layer.1."); },
      [](const std::string& name) { return name.starts_with("encoder."); }};
  for (std::size_t i = 0; i < frozen.size(); ++i) {
    std::vector<tiny::Bits> first;
    for (const tiny::Parallel& parallel : tiny::every_strategy()) {
      CAPTURE(i);
      CAPTURE(parallel.name);
      const auto ranks = tiny::run(2, {}, [&](tiny::Model& model, const comm::Group& group) {
        const auto attached = parallel.attach(model, group);
        tiny::Training training(model, group);
        for (const bool freezes : {false, true, true, false, true, false}) {
          for (const nn::NamedParameter& named : model.loss->named_parameters())
            if (frozen[i](named.name)) named.parameter.set_requires_grad(!freezes);
          training.step();
        }
      });
      if (first.empty()) first = ranks;
      for (const tiny::Bits& bits : ranks) CHECK(bits == first[0]);
    }
  }
}

TEST_CASE("averaged gradients have the same bits under every strategy") {
  const auto declare_local_means = [](tiny::Model& model) {
    model.loss->visit([](const std::string&, nn::Module& below) {
      if (auto* const loss = dynamic_cast<models::Loss*>(&below)) loss->set_local_mean();
    });
  };
  const tiny::Backwards backwards{false, true, false};
  const auto ranks = [&](Strategy strategy) {
    return tiny::run(3, {}, [&](tiny::Model& model, const comm::Group& group) {
      declare_local_means(model);
      const AttachedStrategy attached(strategy, *model.loss, group, {}, DType::f32,
                                      {.average = true});
      tiny::train_rank(model, tiny::loader_options(group.rank(), group.size()), backwards);
    });
  };
  tiny::Model model;
  CHECK_THROWS_AS(SentenceDataParallel(*model.loss, tiny::devices(3), {.average = true}), Error);
  declare_local_means(model);
  const SentenceDataParallel parallel(*model.loss, tiny::devices(3), {.average = true});
  tiny::train_rank(model, tiny::whole_batches(3), backwards);
  const tiny::Bits bits = tiny::bits(*model.loss);
  CHECK(bits != tiny::virtual_ranks(3, backwards));
  for (const Strategy strategy : kStrategiesOfRanks)
    for (const tiny::Bits& of_rank : ranks(strategy)) CHECK(of_rank == bits);
}

TEST_CASE("computed in bf16, parameters that are gathered rounded change no bit") {
  using tiny::parallel;
  constexpr DType kHalf = DType::bf16;
  const std::vector<tiny::Parallel> all{
      parallel<DistributedDataParallel>("DDP", {}),
      parallel<FullySharded>("FSDP, gathered as f32", {}),
      parallel<FullySharded>("FSDP", {.param_dtype = kHalf}),
      parallel<FullySharded>("FSDP, parameters kept for backward",
                             {.reshard_after_forward = false, .param_dtype = kHalf}),
      parallel<FullySharded>("FSDP, layers recomputed", {.param_dtype = kHalf},
                             /*recompute=*/true),
  };
  for (const int n : {1, 2, 3}) {
    const tiny::Bits bits = tiny::virtual_ranks(n, {false}, {}, kHalf);
    CHECK(bits != expected(n));
    for (const tiny::Parallel& one : all) {
      CAPTURE(n);
      CAPTURE(one.name);
      const auto ranks = tiny::run(n, {}, [&](tiny::Model& model, const comm::Group& group) {
        model.encoder.transformer()->set_compute_dtype(kHalf);
        training(one, {false})(model, group);
      });
      for (const tiny::Bits& of_rank : ranks) CHECK(of_rank == bits);
    }
  }
}

TEST_CASE("a unit that computes in f32 has the bits of DDP, whatever layers are gathered as") {
  struct Own : nn::Layer<Own> {
    bool is_unit() const override { return true; }
    Variable forward(const Variable& x) {
      return autograd::sum((*second)((*first)(x) * (*first)(x)));
    }
    std::shared_ptr<nn::Linear> first =
        register_module("first", std::make_shared<nn::Linear>(96, 64));
    std::shared_ptr<nn::Linear> second =
        register_module("second", std::make_shared<nn::Linear>(64, 3));
  };
  struct Holder : nn::Layer<Holder> {
    Variable forward(const Variable& x) { return (*own)(x); }
    std::shared_ptr<Own> own = register_module("own", std::make_shared<Own>());
  };
  const auto train = [](auto attach) {
    std::vector<tiny::Bits> all(2);
    comm::launch(
        [&](const comm::Group& group) {
          const GeneratorGuard seeded(RandomGenerator{3, 0, 0});
          Holder module;
          const auto strategy = attach(module, group);
          AdamW optimizer(module, tiny::adamw(/*groups=*/false));
          for (int step = 0; step < 3; ++step) {
            module(Variable(full({2, 96}, 0.3 + group.rank()))).backward();
            optimizer.step();
            optimizer.zero_grad();
          }
          all[static_cast<std::size_t>(group.rank())] = tiny::bits(module);
        },
        2, {.ranks = comm::Ranks::threads});
    CHECK(all[0] == all[1]);
    return all[0];
  };
  const tiny::Bits bits = train(tiny::attach<DistributedDataParallel>());
  for (const DType dtype : {DType::f32, DType::bf16})
    CHECK(train(tiny::attach<FullySharded>({.param_dtype = dtype})) == bits);
}

TEST_CASE("a world of one trains as without a strategy") {
  tiny::Model plain;
  tiny::train_rank(plain, tiny::loader_options(0, 1));
  const tiny::Bits alone = tiny::bits(*plain.loss);
  for (const tiny::Parallel& parallel : tiny::every_strategy()) {
    CAPTURE(parallel.name);
    tiny::Model model;
    training(parallel, {false})(model, comm::Group());
    CHECK(tiny::bits(*model.loss) == alone);
  }
}

TEST_CASE("a thread and a replica per device end with the same bits, too") {
  for (const tiny::Backwards& backwards : {tiny::Backwards{false}, {false, true, false}}) {
    for (const int n : grid({1, 3}, {2, 4})) {
      CAPTURE(n);
      CAPTURE(backwards.size());
      tiny::Model model;
      SentenceDataParallel parallel(*model.loss, tiny::devices(n));
      tiny::train_rank(model, tiny::whole_batches(n), backwards);
      CHECK(tiny::bits(*model.loss) == tiny::virtual_ranks(n, backwards));
    }
  }
}

TEST_CASE("replicas that share one GPU end with the same bits") {
  if (default_device().type == DeviceType::cpu) return;  // devices of a CPU share its memory anyway
  for (const int n : {2, 4}) {
    CAPTURE(n);
    tiny::Model model;
    const std::vector<Device> one(static_cast<std::size_t>(n), default_device());
    SentenceDataParallel parallel(*model.loss, one);
    tiny::train_rank(model, tiny::whole_batches(n), {false});
    CHECK(tiny::bits(*model.loss) == expected(n));
  }
}
