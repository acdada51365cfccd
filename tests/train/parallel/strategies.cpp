// Properties of strategies other than their bits: precise errors, accumulation, amount of
// communication and memory.
#include <doctest/doctest.h>

#include <optional>

#include "every_strategy.h"
#include "ringlet/ringlet.h"

using namespace ringlet;
using namespace ringlet::train;

namespace {

using tiny::attach;

/// y = x w, one unit of `size` weights, and a second parameter that forward may omit.
struct Line : nn::Layer<Line> {
  explicit Line(std::int64_t size, bool use_both = true) : use_both(use_both) {
    weight = register_parameter("weight", ones({size}));
    other = register_parameter("other", ones({size}));
  }
  bool is_unit() const override { return true; }
  Variable forward(const Variable& x) {
    if (entered) entered();
    const Variable y = autograd::mul(x, weight);
    return use_both ? autograd::add(y, other) : y;
  }
  bool use_both;
  std::function<void()> entered;
  nn::Parameter weight, other;
};

struct Stack : nn::Layer<Stack> {
  Stack(int lines, std::int64_t size) {
    for (int i = 0; i < lines; ++i)
      all.push_back(register_module(str("line.", i), std::make_shared<Line>(size)));
  }
  Variable forward(Variable x) {
    for (const auto& line : all) x = (*line)(x);
    return autograd::sum(x);
  }
  std::vector<std::shared_ptr<Line>> all;
};

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

void launch(int n, const std::function<void(const comm::Group&)>& body) {
  comm::launch(body, n, {.ranks = comm::Ranks::threads});
}

}  // namespace

TEST_CASE("buckets go from the loss head to the embeddings, a small one first") {
  CHECK(cut_buckets(10, 2, 4) == std::vector<Bucket>{{8, 10}, {4, 8}, {0, 4}});
  CHECK(cut_buckets(3, 100, 1) == std::vector<Bucket>{{0, 3}});
  CHECK(cut_buckets(0, 1, 1).empty());
}

TEST_CASE("a backward makes one all-reduce per bucket") {
  launch(2, [](const comm::Group& group) {
    Stack stack(4, 4096);  // 8 x 16 KiB of gradients
    DistributedDataParallel ddp(stack, group,
                                {.bucket_cap_mb = 1.0 / 16, .first_bucket_mb = 1.0 / 32});
    const auto before = group.stats().collectives;
    stack(Variable(ones({4096}))).backward();
    CHECK(group.stats().collectives - before == 3);  // of 32, 64 and 32 KiB
    {
      const NoSync no_sync = ddp.no_sync();
      stack(Variable(ones({4096}))).backward();
    }
    CHECK(group.stats().collectives - before == 3);
  });
}

TEST_CASE("no_sync of another module than the strategy's is refused") {
  struct Outer : nn::Module {
    std::shared_ptr<Line> head = register_module("head", std::make_shared<Line>(8));
    std::shared_ptr<Stack> stack = register_module("stack", std::make_shared<Stack>(2, 8));
  };
  for (const auto& attach : tiny::each_strategy())
    launch(2, [&](const comm::Group& group) {
      Outer outer;
      const auto attached = attach(*outer.stack, group);
      for (nn::Module* other :
           {static_cast<nn::Module*>(&outer), static_cast<nn::Module*>(outer.stack->all[1].get())})
        CHECK(has(message_of([&] { const NoSync paused(*other); }),
                  "' is attached to another module than this one: pass that module"));
      CHECK_NOTHROW(NoSync{*outer.stack});
      CHECK_NOTHROW(NoSync{*outer.head});  // has no strategy
      CHECK_EQ(outer.no_syncs(), 0);
    });
}

TEST_CASE("strategies chosen by name take their options") {
  launch(2, [](const comm::Group& group) {
    const auto with = [&](Strategy strategy, const StrategyOptions& options) {
      Stack stack(4, 4096);  // 128 KiB
      const AttachedStrategy attached(strategy, stack, group, {}, DType::f32, options);
      std::uint64_t at_first_layer = 0;
      const auto before = group.stats().collectives;
      stack.all[0]->entered = [&] { at_first_layer = group.stats().collectives - before; };
      stack(Variable(ones({4096}))).backward();
      return std::pair(at_first_layer, group.stats().collectives - before);
    };
    CHECK(with(Strategy::ddp, {}).second == 1);
    CHECK(with(Strategy::ddp, {.bucket_cap_mb = 1.0 / 32}).second == 4);
    CHECK(with(Strategy::fsdp, {}) == std::pair<std::uint64_t, std::uint64_t>(2, 12));
    CHECK(with(Strategy::fsdp, {.reshard_after_forward = false}).second == 8);
    CHECK(with(Strategy::fsdp, {.prefetch = false}).first == 1);
  });
}

TEST_CASE("gathered as bf16, the matrices of layers that compute in it are half the bytes") {
  struct Dense : nn::Layer<Dense> {
    explicit Dense(DType dtype) : dtype(dtype) {}
    bool is_unit() const override { return true; }
    DType compute_dtype() const override { return dtype; }
    Variable forward(const Variable& x) {
      used = weight.dtype();
      return autograd::linear(x, weight, bias);
    }
    bool only_multiplied(const nn::Parameter& parameter) const override {
      return parameter == weight;
    }
    DType dtype, used = DType::u8;
    nn::Parameter weight = register_parameter("weight", ones({63, 63}));
    nn::Parameter bias = register_parameter("bias", ones({63}));
  };
  struct Tower : nn::Layer<Tower> {
    explicit Tower(DType dtype) {
      for (auto* one : {&first, &second})
        *one = register_module(one == &first ? "first" : "second", std::make_shared<Dense>(dtype));
    }
    Variable forward(const Variable& x) { return (*second)((*first)(x)); }
    std::shared_ptr<Dense> first, second;
    nn::Parameter outside = register_parameter("outside", ones({63, 63}));
  };
  for (const int n : {2, 3})
    launch(n, [&](const comm::Group& group) {
      for (const DType dtype : {DType::f32, DType::bf16}) {
        Tower tower(dtype);
        FullySharded fsdp(tower, group, {.param_dtype = DType::bf16});
        const autograd::NoGrad no_grad;
        const auto before = group.stats().bytes_sent;
        const Variable y = tower(Variable(ones({2, 63}).to(dtype)));
        CHECK(tower.first->used == dtype);
        const std::string mine = std::to_string(group.stats().bytes_sent - before);
        // bf16 represents only multiples of 16 there.
        CHECK(y.tensor().to_vector()[0] == (dtype == DType::f32 ? 63 * 64 + 1 : 63 * 64));
        std::size_t sent = 0;
        for (const std::string& each : group.all_gather_bytes(mine)) sent += std::stoull(each);
        // The bias is aligned to its 4 bytes.
        const std::size_t matrix = (63 * 63 * itemsize(dtype) + 3) / 4 * 4;
        const std::size_t layer = matrix + 63 * 4, outside = 63 * 63 * 4;
        CHECK(sent == static_cast<std::size_t>(n - 1) * (2 * layer + outside));
      }
    });
}

TEST_CASE("replicas compute in what the module computes in by now") {
  const auto trained = [](bool set_before) {
    const GeneratorGuard seeded(RandomGenerator{3, 0, 0});
    tiny::Model model;
    const auto compute_in_bf16 = [&] {
      model.encoder.transformer()->set_compute_dtype(DType::bf16);
    };
    if (set_before) compute_in_bf16();
    const SentenceDataParallel parallel(*model.loss, tiny::devices(2));
    if (!set_before) compute_in_bf16();
    tiny::Training(model, tiny::loader_options(0, 1)).step();
    return tiny::bits(*model.loss);
  };
  CHECK(trained(false) == trained(true));
}

TEST_CASE("only the rows that were read from a table are sent") {
  struct Lookup : nn::Layer<Lookup> {
    bool is_unit() const override { return true; }
    Variable forward(const Tensor& ids) {
      return autograd::sum(autograd::mul((*table)(ids), autograd::mul(scale, scale)));
    }
    nn::Parameter scale = register_parameter("scale", full({64}, 0.3));
    std::shared_ptr<nn::Embedding> table =
        register_module("table", std::make_shared<nn::Embedding>(1 << 11, 64));
    nn::Parameter unused = register_parameter("unused", full({4096}, 0.7));
  };
  constexpr std::size_t kTable = (1 << 11) * 64 * sizeof(float);
  const bool on_cpu = default_device().type == DeviceType::cpu;
  for (const int n : {2, 3}) {
    for (const bool few : {true, false}) {
      CAPTURE(n);
      CAPTURE(few);
      const auto train = [&](const auto& attached) {
        std::vector<tiny::Bits> all(static_cast<std::size_t>(n));
        launch(n, [&](const comm::Group& group) {
          const GeneratorGuard seeded(RandomGenerator{3, 0, 0});
          Lookup module;
          module.unused.set_requires_grad(false);
          const auto strategy = attached(module, group);
          AdamW optimizer(module, tiny::adamw(/*groups=*/false));
          std::vector<std::int32_t> ids;  // some are also another rank's
          for (int i = 0; i < (few ? 20 : 2000); ++i) ids.push_back((i + 7 * group.rank()) % 2048);
          for (int step = 0; step < 3; ++step) {
            const auto before = group.stats().bytes_sent;
            module(tensor(ids, {static_cast<std::int64_t>(ids.size())})).backward();
            // Dense, as on a GPU, each rank would send (n - 1) / n of the table.
            if (few && on_cpu) CHECK(group.stats().bytes_sent - before < kTable / 4);
            optimizer.step();
            optimizer.zero_grad();
          }
          all[static_cast<std::size_t>(group.rank())] = tiny::bits(module);
        });
        for (const tiny::Bits& bits : all) CHECK(bits == all[0]);
        return all[0];
      };
      const tiny::Bits bits = train(attach<DistributedDataParallel>({.bucket_cap_mb = 0.25}));
      for (const int stage : {1, 2}) CHECK(train(attach<ShardedDataParallel>({stage})) == bits);
    }
  }
}

// One rank's batch reads rows of the table, another's multiplies by all of it.
TEST_CASE("ranks that use a table in different ways agree on how its gradient goes") {
  struct Table : nn::Layer<Table> {
    bool is_unit() const override { return true; }
    Variable forward(const Tensor& ids, bool by_rows) {
      if (by_rows) return autograd::sum(autograd::embedding(weight, ids));
      return autograd::sum(autograd::add(weight, weight));
    }
    nn::Parameter weight = register_parameter("weight", zeros({256, 64}));
  };
  auto all = tiny::each_strategy();
  all[0] = attach<DistributedDataParallel>({.bucket_cap_mb = 1.0 / 1024});
  for (std::size_t i = 0; i < all.size(); ++i)
    for (const int first : {0, 1}) {  // the step in which the ranks differ
      CAPTURE(i);
      CAPTURE(first);
      launch(3, [&](const comm::Group& group) {
        Table table;
        const auto strategy = all[i](table, group);
        Sgd optimizer(table, {.lr = 1});
        double of_row = 0, of_others = 0;
        for (int step = 0; step < 3; ++step) {
          const bool by_rows = step != first || group.rank() != 1;
          table(tensor<std::int32_t>({5, 5, 200}), by_rows).backward();
          optimizer.step();
          optimizer.zero_grad();
          of_row -= step == first ? 2 + 2 + 2 : 3 * 2;
          of_others -= step == first ? 2 : 0;
        }
        nn::WholeParameters whole(table);
        const std::vector<float> values = whole(table.weight).to_vector();
        CHECK(values[5 * 64] == of_row);
        CHECK(values[6 * 64] == of_others);
      });
    }
}

TEST_CASE("values and moments of another shape are refused by every rank, wherever they lie") {
  const auto all = tiny::each_strategy();
  for (std::size_t i = 0; i < all.size(); ++i) {
    CAPTURE(i);
    launch(2, [&](const comm::Group& group) {
      Stack stack(1, 2 * 4096);  // a rank has a parameter completely or not at all
      const auto strategy = all[i](stack, group);
      AdamW optimizer(stack);
      const auto sharding = nn::sharding_of(stack);
      const nn::Parameter weight = stack.all[0]->weight;
      for (const std::int64_t size : {4096, 3 * 4096})
        CHECK(message_of([&] { sharding->assign(weight, ones({size})); }) ==
              str("[assign] shape of line.0.weight: (", size, ",) != (8192,)"));
      const auto moments = [](std::int64_t size) {
        const Tensor each = full({size}, 0.5);
        return std::vector<Optimizer::ParameterState>{
            {"line.0.weight", 1, {{"exp_avg", each}, {"exp_avg_sq", each}}}};
      };
      CHECK(message_of([&] { optimizer.load_state(moments(3 * 4096)); }) ==
            "[optimizer] exp_avg of line.0.weight: expected shape (8192,), found (12288,)");
      optimizer.load_state(moments(2 * 4096));
      CHECK(optimizer.state()[0].steps == 1);
    });
  }
}

TEST_CASE("modules that differ between ranks are refused, naming the first difference") {
  launch(3, [](const comm::Group& group) {
    Stack stack(group.rank() == 2 ? 3 : 2, 8);
    const std::string what = message_of([&] { DistributedDataParallel ddp(stack, group); });
    CHECK(has(what, "rank 0 has nothing, rank 2 has 'line.2.weight' f32 (8,)"));
  });
  launch(2, [](const comm::Group& group) {
    Stack stack(2, 8 + group.rank());
    const std::string what = message_of([&] { FullySharded fsdp(stack, group); });
    CHECK(has(what, "rank 0 has 'line.0.weight' f32 (8,), rank 1 has 'line.0.weight' f32 (9,)"));
  });
}

TEST_CASE("a parameter that the loss does not reach is named") {
  launch(2, [](const comm::Group& group) {
    Line line(8, /*use_both=*/false);
    DistributedDataParallel ddp(line, group);
    const Variable value = autograd::sum(line(Variable(ones({8}))));
    CHECK(message_of([&] { value.backward(); }) ==
          "[ddp] the loss does not reach other; leave them out of the module or freeze them");
    line.other.set_requires_grad(false);
    CHECK_NOTHROW(autograd::sum(line(Variable(ones({8})))).backward());
  });
}

TEST_CASE("a step is refused while no_sync has left gradients that were not summed") {
  for (const Strategy strategy : kStrategiesOfRanks)
    for (const int n : {1, 2}) {
      CAPTURE(kStrategies(strategy));
      CAPTURE(n);
      launch(n, [&](const comm::Group& group) {
        Stack stack(1, 8);
        const AttachedStrategy attached(strategy, stack, group, {});
        Sgd optimizer(stack, {.lr = 1});
        const auto backward = [&](bool pauses) {
          std::optional<NoSync> no_sync;
          if (pauses) no_sync.emplace(stack);
          stack(Variable(ones({8}))).backward();
        };
        const auto value = [&] {
          nn::WholeParameters whole(stack);
          return whole(stack.all[0]->other).to_vector()[5];
        };
        const std::string refused =
            "[optimizer] the gradient of 'line.0.weight' is not summed: run a step's last backward "
            "without no_sync, or discard it with zero_grad()";
        backward(true);
        CHECK(message_of([&] { optimizer.step(); }) == refused);
        CHECK(value() == 1);
        backward(false);
        optimizer.step();
        CHECK(value() == 1 - 2 * n);
        backward(true);  // accumulated
        CHECK(message_of([&] { optimizer.step(); }) == refused);
        optimizer.zero_grad();
        backward(false);
        optimizer.step();
        CHECK(value() == 1 - 3 * n);
      });
    }
}

TEST_CASE("a module without parameters is refused") {
  struct Nothing : nn::Module {};
  for (const Strategy strategy : kStrategiesOfRanks)
    launch(2, [&](const comm::Group& group) {
      Nothing nothing;
      const std::string name(kStrategies(strategy));
      CHECK(message_of([&] { AttachedStrategy(strategy, nothing, group, {}); }) ==
            "[" + name + "] the module has no parameters");
    });
}

TEST_CASE("dp by name takes a loss over batches of sentences") {
  struct OtherLoss : nn::Module {
    bool is_loss() const override { return true; }
  };
  Line line(4);
  OtherLoss other;
  for (nn::Module* module : std::initializer_list<nn::Module*>{&line, &other})
    CHECK(message_of([&] { AttachedStrategy(Strategy::dp, *module, {}, tiny::devices(2)); }) ==
          "strategy dp: expected a loss over batches of sentences");
}

// Averaged, torch.nn.parallel.DistributedDataParallel computes these gradients.
TEST_CASE("gradients are sums over the ranks or their means, those of several backwards added") {
  for (const Strategy strategy : kStrategiesOfRanks)
    for (const bool average : {false, true})
      for (const bool pause : {false, true}) {
        CAPTURE(kStrategies(strategy));
        CAPTURE(average);
        CAPTURE(pause);
        launch(3, [&](const comm::Group& group) {
          Stack stack(1, 3 * 4096);
          const AttachedStrategy attached(strategy, stack, group, {}, DType::f32,
                                          {.average = average});
          Sgd optimizer(stack, {.lr = 1});
          for (int step = 1; step <= 2; ++step) {
            for (int micro = 0; micro < 2; ++micro) {
              std::optional<NoSync> no_sync;
              if (pause && micro == 0) no_sync.emplace(stack);
              // d(sum)/d(weight) is 1, 4 and 7, d(sum)/d(other) is 1.
              stack(Variable(full({3 * 4096}, 1 + 3 * group.rank()))).backward();
            }
            optimizer.step();
            optimizer.zero_grad();
            nn::WholeParameters whole(stack);
            const int times = 2 * step * (average ? 1 : 3);
            for (const float value : whole(stack.all[0]->weight).to_vector())
              REQUIRE(value == 1 - 4 * times);
            for (const float value : whole(stack.all[0]->other).to_vector())
              REQUIRE(value == 1 - times);
          }
        });
      }
}

TEST_CASE("the batches of a group are refused without a strategy, those of given ranks are parts") {
  launch(2, [&](const comm::Group& group) {
    tiny::Model model;
    const auto options = tiny::loader_options(group.rank(), 2);
    Loader of_group(tiny::datasets(), model.encoder.tokenizer(), options, group);
    const models::PackedBatch batch = tiny::next(*model.loss, of_group);
    CHECK(message_of([&] { (*model.loss)(batch); })
              .starts_with(
                  "[loss] the batch is one of 2 ranks, its value a part of their mean, and no "
                  "strategy sums the gradients"));
    {
      const autograd::NoGrad no_grad;
      CHECK_NOTHROW((*model.loss)(batch));
    }
    Loader of_options(tiny::datasets(), model.encoder.tokenizer(), options);
    models::PackedBatch alone = tiny::next(*model.loss, of_options);
    model.loss->eval();  // no dropout
    const double part = (*model.loss)(alone).item<double>();
    const double factor = static_cast<double>(alone.global_rows) / static_cast<double>(alone.rows);
    CHECK(factor >= 2);
    alone.global_rows = alone.rows;
    alone.ranks = 1;
    CHECK((*model.loss)(alone).item<double>() == doctest::Approx(factor * part).epsilon(1e-6));
  });
}

TEST_CASE("a batch that is cut for another number of ranks than are summed over is refused") {
  for (const Strategy strategy : kStrategiesOfRanks)
    for (const bool average : {false, true}) {
      CAPTURE(kStrategies(strategy));
      CAPTURE(average);
      launch(2, [&](const comm::Group& group) {
        tiny::Model model;
        const AttachedStrategy attached(strategy, *model.loss, group, {}, DType::f32,
                                        {.average = average});
        // Every rank has all rows.
        Loader whole(tiny::datasets(), model.encoder.tokenizer(), {.batch_size = tiny::kRows});
        const models::PackedBatch batch = tiny::next(*model.loss, whole);
        CHECK(message_of([&] { (*model.loss)(batch).backward(); }) ==
              (average ? ""
                       : "[loss] the batch is cut for a world of 1, gradients are summed over 2 "
                         "ranks: give the Loader the strategy's group, or set its option average"));
        {
          const autograd::NoGrad no_grad;
          CHECK_NOTHROW((*model.loss)(batch));
        }
        Loader shared(tiny::datasets(), model.encoder.tokenizer(), {.batch_size = tiny::kRows},
                      group);
        CHECK(
            message_of([&] {
              (*model.loss)(tiny::next(*model.loss, shared)).backward();
            }).starts_with(average ? "[loss] the value is divided by the rows of all ranks" : ""));
      });
    }
}
