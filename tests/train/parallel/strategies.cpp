// What strategies promise besides their bits: errors that name things, accumulation, how often they
// talk and what they keep.
#include <doctest/doctest.h>

#include <optional>

#include "ringlet/autograd/functions/elementwise.h"
#include "ringlet/autograd/functions/matmul.h"
#include "ringlet/autograd/functions/reduce.h"
#include "ringlet/train/parallel/buckets.h"
#include "ringlet/train/parallel/distributed_data_parallel.h"
#include "ringlet/train/parallel/fully_sharded.h"
#include "ringlet/train/parallel/sharded_data_parallel.h"
#include "tiny.h"

using namespace ringlet;
using namespace ringlet::train;

namespace {

/// y = x w, one unit of `size` weights, and a second parameter that forward may leave out.
struct Line : nn::Layer<Line> {
  explicit Line(std::int64_t size, bool use_both = true) : use_both(use_both) {
    weight = register_parameter("weight", ones({size}));
    other = register_parameter("other", ones({size}));
  }
  bool is_unit() const override { return true; }
  Variable forward(const Variable& x) {
    const Variable y = autograd::mul(x, weight);
    return use_both ? autograd::add(y, other) : y;
  }
  bool use_both;
  nn::Parameter weight, other;
};

struct Stack : nn::Layer<Stack> {
  Stack(int lines, std::int64_t size) {
    for (int i = 0; i < lines; ++i)
      all.push_back(register_module(concat("line.", i), std::make_shared<Line>(size)));
  }
  Variable forward(Variable x) {
    for (const auto& line : all) x = (*line)(x);
    return autograd::sum(x);
  }
  std::vector<std::shared_ptr<Line>> all;
};

template <class Body>
std::string message(const Body& body) {
  try {
    body();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

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
    REQUIRE(ddp.buckets().size() == 3);  // 32, 64 and 32 KiB
    const auto before = group.stats().collectives;
    stack(Variable(ones({4096}))).backward();
    CHECK(group.stats().collectives - before == 3);
    {
      const NoSync no_sync = ddp.no_sync();
      stack(Variable(ones({4096}))).backward();
    }
    CHECK(group.stats().collectives - before == 3);
  });
}

TEST_CASE("FSDP gathers each unit twice and reduces it once; kept for backward, once each") {
  launch(2, [](const comm::Group& group) {
    for (const bool reshard : {true, false}) {
      Stack stack(4, 4096);
      FullySharded fsdp(stack, group, {.reshard_after_forward = reshard, .poison = true});
      const auto before = group.stats().collectives;
      stack(Variable(ones({4096}))).backward();
      CHECK(group.stats().collectives - before == (reshard ? 12 : 8));
    }
  });
}

TEST_CASE("a step moves 2, 2, 2 and 3 times the parameters, less each rank's own part") {
  constexpr int kLines = 4;
  constexpr std::int64_t kSize = 1 << 16;
  for (const int n : {2, 4}) {
    launch(n, [&](const comm::Group& group) {
      const auto moved = [&](auto attach) {
        Stack stack(kLines, kSize);
        const auto strategy = attach(stack);
        AdamW optimizer(stack);
        const auto before = group.stats().bytes_sent;
        stack(Variable(ones({kSize}))).backward();
        optimizer.step();
        const double whole = 2.0 * kLines * kSize * sizeof(float) * (n - 1) / n;
        return static_cast<double>(group.stats().bytes_sent - before) / whole;
      };
      const auto with = [&](auto tag, auto options) {
        return [&group, options](nn::Module& module) {
          return std::make_unique<typename decltype(tag)::type>(module, group, options);
        };
      };
      const auto near = [](double times) { return doctest::Approx(times).epsilon(0.01); };
      using Ddp = std::type_identity<DistributedDataParallel>;
      using Zero = std::type_identity<ShardedDataParallel>;
      using Fsdp = std::type_identity<FullySharded>;
      CHECK(moved(with(Ddp(), DistributedDataParallelOptions{})) == near(2));
      CHECK(moved(with(Zero(), ShardedDataParallelOptions{1})) == near(2));
      CHECK(moved(with(Zero(), ShardedDataParallelOptions{2})) == near(2));
      CHECK(moved(with(Fsdp(), FullyShardedOptions{})) == near(3));
      CHECK(moved(with(Fsdp(), FullyShardedOptions{.reshard_after_forward = false})) == near(2));
    });
  }
}

TEST_CASE("gathered as bf16, the matrices of layers are half the bytes, all else what it was") {
  struct Dense : nn::Layer<Dense> {
    bool is_unit() const override { return true; }
    Variable forward(const Variable& x) {
      used = weight.dtype();
      return autograd::linear(x, weight, bias);
    }
    bool only_multiplied(const nn::Parameter& parameter) const override {
      return parameter == weight;
    }
    DType used = DType::u8;
    nn::Parameter weight = register_parameter("weight", ones({63, 63}));
    nn::Parameter bias = register_parameter("bias", ones({63}));
  };
  struct Tower : nn::Layer<Tower> {
    Variable forward(const Variable& x) { return (*second)((*first)(x)); }
    std::shared_ptr<Dense> first = register_module("first", std::make_shared<Dense>());
    std::shared_ptr<Dense> second = register_module("second", std::make_shared<Dense>());
    nn::Parameter outside = register_parameter("outside", ones({63, 63}));
  };
  for (const int n : {2, 3})
    launch(n, [&](const comm::Group& group) {
      for (const DType dtype : {DType::f32, DType::bf16}) {
        Tower tower;
        FullySharded fsdp(tower, group, {.param_dtype = dtype, .poison = true});
        const autograd::NoGrad no_grad;
        const auto before = group.stats().bytes_sent;
        const Variable y = tower(Variable(ones({2, 63}).to(dtype)));
        CHECK(tower.first->used == dtype);
        const std::string mine = std::to_string(group.stats().bytes_sent - before);
        // bf16 holds multiples of 16 there.
        CHECK(y.tensor().to_vector()[0] == (dtype == DType::f32 ? 63 * 64 + 1 : 63 * 64));
        std::size_t sent = 0;
        for (const std::string& each : group.all_gather_bytes(mine)) sent += std::stoull(each);
        // The bias begins at a multiple of its 4 bytes.
        const std::size_t matrix = (63 * 63 * itemsize(dtype) + 3) / 4 * 4;
        const std::size_t layer = matrix + 63 * 4, outside = 63 * 63 * 4;
        CHECK(sent == static_cast<std::size_t>(n - 1) * (2 * layer + outside));
      }
    });
}

TEST_CASE("modules that differ between ranks are refused, naming the first difference") {
  launch(3, [](const comm::Group& group) {
    Stack stack(group.rank() == 2 ? 3 : 2, 8);
    const std::string what = message([&] { DistributedDataParallel ddp(stack, group); });
    CHECK(has(what, "rank 0 has nothing, rank 2 has 'line.2.weight' f32 (8,)"));
  });
  launch(2, [](const comm::Group& group) {
    Stack stack(2, 8 + group.rank());
    const std::string what = message([&] { FullySharded fsdp(stack, group); });
    CHECK(has(what, "rank 0 has 'line.0.weight' f32 (8,), rank 1 has 'line.0.weight' f32 (9,)"));
  });
}

TEST_CASE("a parameter that the loss does not reach is named") {
  launch(2, [](const comm::Group& group) {
    Line line(8, /*use_both=*/false);
    DistributedDataParallel ddp(line, group);
    const Variable value = autograd::sum(line(Variable(ones({8}))));
    CHECK(message([&] { value.backward(); }) ==
          "[ddp] the loss does not reach other; leave them out of the module or freeze them");
    line.other.set_requires_grad(false);
    CHECK_NOTHROW(autograd::sum(line(Variable(ones({8})))).backward());
  });
}

TEST_CASE("gradients are sums, also those of several backwards, with and without no_sync") {
  using Make =
      std::function<std::shared_ptr<void>(nn::Module&, const comm::Group&, std::shared_ptr<int>&)>;
  const auto make = [](auto tag, auto options) -> Make {
    return [options](nn::Module& module, const comm::Group& group, std::shared_ptr<int>& paused) {
      auto strategy = std::make_shared<typename decltype(tag)::type>(module, group, options);
      paused = strategy->paused();
      return strategy;
    };
  };
  const std::vector<Make> all{
      make(std::type_identity<DistributedDataParallel>(), DistributedDataParallelOptions{}),
      make(std::type_identity<ShardedDataParallel>(), ShardedDataParallelOptions{1}),
      make(std::type_identity<ShardedDataParallel>(), ShardedDataParallelOptions{2}),
      make(std::type_identity<FullySharded>(), FullyShardedOptions{.poison = true})};
  for (std::size_t i = 0; i < all.size(); ++i) {
    for (const bool pause : {false, true}) {
      CAPTURE(i);
      CAPTURE(pause);
      launch(3, [&](const comm::Group& group) {
        Stack stack(2, 3 * 4096);
        std::shared_ptr<int> paused;
        const auto strategy = all[i](stack, group, paused);
        Sgd optimizer(stack, {.lr = 1});
        for (int step = 1; step <= 2; ++step) {
          for (int micro = 0; micro < 2; ++micro) {
            std::optional<NoSync> no_sync;
            if (pause && micro == 0) no_sync.emplace(paused);
            // d(sum)/d(line.1.other) is 1 for each element, rank and micro-batch.
            stack(Variable(full({3 * 4096}, group.rank()))).backward();
          }
          optimizer.step();
          optimizer.zero_grad();
          nn::WholeParameters whole(stack);
          for (const float value : whole(stack.all[1]->other).to_vector())
            REQUIRE(value == 1 - 6 * step);
        }
      });
    }
  }
}

TEST_CASE("FSDP keeps 16 bytes x parameters / n, and for a while three units and two gradients") {
  constexpr std::int64_t kSize = 1 << 18;  // a unit: 2 MiB of parameters
  constexpr int kLines = 8;
  for (const int n : {1, 2, 4}) {
    CAPTURE(n);
    // Ranks are threads of one process here and share an allocator, so their sums are compared.
    const Device device;
    const auto at_first = memory_stats(device).allocated;
    std::size_t peak = 0, kept = 0;
    launch(n, [&](const comm::Group& group) {
      Stack stack(kLines, kSize);
      FullySharded fsdp(stack, group);
      AdamW optimizer(stack);
      group.barrier();
      if (group.rank() == 0) reset_peak_memory(device);
      group.barrier();
      for (int step = 0; step < 2; ++step) {
        stack(Variable(ones({1}))).backward();
        optimizer.step();
        optimizer.zero_grad();
      }
      group.barrier();
      if (group.rank() == 0) {
        peak = memory_stats(device).peak - at_first;
        kept = memory_stats(device).allocated - at_first;
      }
      group.barrier();
    });
    constexpr std::size_t kUnit = 2 * kSize * sizeof(float);
    const std::size_t shards = 16 * kLines * 2 * kSize;  // of all ranks together
    constexpr std::size_t kSlack = 1 << 16;
    CHECK(kept <= shards + static_cast<std::size_t>(n) * kSlack);
    // Activations of this module are as large as half a unit, one per line and one on the way.
    const std::size_t activations = (kLines + 2) * 2 * kSize * sizeof(float);
    CHECK(peak <= shards + static_cast<std::size_t>(n) * (5 * kUnit + activations + kSlack));
    MESSAGE(n, " ranks: ", kept / static_cast<std::size_t>(n), " bytes kept, ",
            peak / static_cast<std::size_t>(n), " at the peak, per rank");
  }
}
