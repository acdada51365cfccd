// One equality: for the same number of ranks and the same global batches, every strategy ends with
// the same bits as ranks that run one after the other on one device.
#include <doctest/doctest.h>

#include <cmath>
#include <map>
#include <optional>

#include "ringlet/core/ops/elementwise.h"
#include "ringlet/train/parallel/data_parallel.h"
#include "ringlet/train/parallel/distributed_data_parallel.h"
#include "ringlet/train/parallel/fully_sharded.h"
#include "ringlet/train/parallel/sharded_data_parallel.h"
#include "tiny.h"

using namespace ringlet;
using namespace ringlet::train;

namespace {

constexpr double kKiB = 1.0 / 1024;  // in MiB

const tiny::Bits& expected(int n) {
  static std::map<int, tiny::Bits> known;
  if (!known.contains(n)) known[n] = tiny::virtual_ranks(n);
  return known[n];
}

tiny::TrainRank ddp(double bucket_mb) {
  return [=](tiny::Model& model, const comm::Group& group) {
    DistributedDataParallel parallel(*model.loss, group,
                                     {.bucket_cap_mb = bucket_mb, .first_bucket_mb = kKiB});
    tiny::train_rank(model, group.rank(), group.size());
  };
}

tiny::TrainRank zero(int stage) {
  return [=](tiny::Model& model, const comm::Group& group) {
    ShardedDataParallel parallel(*model.loss, group, {.stage = stage});
    tiny::train_rank(model, group.rank(), group.size());
  };
}

tiny::TrainRank fsdp(FullyShardedOptions options) {
  return [=](tiny::Model& model, const comm::Group& group) {
    FullySharded parallel(*model.loss, group, options);
    tiny::train_rank(model, group.rank(), group.size());
  };
}

tiny::TrainRank recomputed(const tiny::TrainRank& train_rank) {
  return [=](tiny::Model& model, const comm::Group& group) {
    model.encoder.transformer()->set_checkpointing(true);
    train_rank(model, group);
  };
}

const std::vector<std::pair<const char*, tiny::TrainRank>>& strategies() {
  static const std::vector<std::pair<const char*, tiny::TrainRank>> all{
      {"DDP, buckets of 1 KiB", ddp(kKiB)},
      {"DDP, buckets of 1 MiB", ddp(1)},
      {"DDP, one bucket", ddp(1024)},
      {"ZeRO-1", zero(1)},
      {"ZeRO-2", zero(2)},
      {"FSDP", fsdp({.poison = true})},
      {"FSDP, parameters kept for backward",
       fsdp({.reshard_after_forward = false, .poison = true})},
      {"FSDP, nothing fetched ahead", fsdp({.prefetch = false, .poison = true})},
      {"DDP, layers recomputed", recomputed(ddp(1))},
      {"FSDP, layers recomputed", recomputed(fsdp({.poison = true}))},
  };
  return all;
}

const std::vector<std::pair<const char*, comm::TransportKind>> kTransports{
    {"thread", comm::TransportKind::thread},
    {"shm", comm::TransportKind::shm},
    {"gloo", comm::TransportKind::gloo},
};

}  // namespace

TEST_CASE("under direct every strategy ends with the same bits, whatever moves them") {
  for (const auto& [name, kind] : kTransports) {
    const auto& transport = name;  // clang 14 captures no structured binding
    for (const int n : {2, 3, 4}) {
      for (const auto& [name, train_rank] : strategies()) {
        const auto& strategy = name;
        CAPTURE(transport);
        CAPTURE(n);
        CAPTURE(strategy);
        const auto ranks =
            tiny::run(n, {.transport = kind, .algorithm = comm::Algorithm::direct}, train_rank);
        for (const tiny::Bits& bits : ranks) CHECK(bits == expected(n));
      }
    }
  }
}

TEST_CASE("under ring every rank has the same bits, and every run") {
  for (const int n : {2, 3, 4}) {
    for (const auto& [name, train_rank] : strategies()) {
      const auto& strategy = name;
      CAPTURE(n);
      CAPTURE(strategy);
      const comm::GroupOptions ring{.algorithm = comm::Algorithm::ring};
      const auto once = tiny::run(n, ring, train_rank), again = tiny::run(n, ring, train_rank);
      for (const tiny::Bits& bits : once) CHECK(bits == once[0]);
      CHECK(once == again);
    }
  }
}

TEST_CASE("a sum under ring is as far from one under direct as two orders of adding can be") {
  for (const int n : {2, 3, 4}) {
    CAPTURE(n);
    const auto ranks = static_cast<std::size_t>(n);
    std::vector<std::vector<float>> mine(ranks), direct(ranks), ring(ranks);
    const auto gradients = [&](comm::Algorithm algorithm, std::vector<std::vector<float>>& out) {
      const auto on_rank = [&](const comm::Group& group) {
        tiny::Model model;
        std::optional<DistributedDataParallel> ddp;
        if (&out != &mine) ddp.emplace(*model.loss, group);
        Loader loader(tiny::datasets(), model.encoder.tokenizer(),
                      tiny::loader_options(group.rank(), n));
        (*model.loss)(tiny::next(loader)).backward();
        for (const nn::Parameter& parameter : model.loss->parameters())
          if (parameter.grad().defined())
            for (const float g : parameter.grad().to_vector())
              out[static_cast<std::size_t>(group.rank())].push_back(g);
      };
      comm::launch(on_rank, n, {.ranks = comm::Ranks::threads, .group = {.algorithm = algorithm}});
    };
    gradients(comm::Algorithm::direct, mine);
    gradients(comm::Algorithm::direct, direct);
    gradients(comm::Algorithm::ring, ring);
    // Each of the n - 1 additions rounds once: |error| <= (n - 1) u / (1 - (n - 1) u) sum |g|.
    const double u = (n - 1) * 0x1p-24, bound = 2 * u / (1 - u);
    double used = 0;
    for (std::size_t i = 0; i < mine[0].size(); ++i) {
      double magnitude = 0;
      for (const auto& of_rank : mine) magnitude += std::abs(static_cast<double>(of_rank[i]));
      const double difference = std::abs(static_cast<double>(ring[0][i]) - direct[0][i]);
      REQUIRE(difference <= bound * magnitude);
      if (magnitude > 0) used = std::max(used, difference / (bound * magnitude));
    }
    MESSAGE(n, " ranks: used ", 100 * used, " % of the allowed error");
  }
}

TEST_CASE("a world of one trains as without a strategy") {
  tiny::Model plain;
  tiny::train_rank(plain, 0, 1);
  const tiny::Bits alone = tiny::bits(*plain.loss);
  for (const auto& [name, train_rank] : strategies()) {
    const auto& strategy = name;
    CAPTURE(strategy);
    tiny::Model model;
    train_rank(model, comm::Group());
    CHECK(tiny::bits(*model.loss) == alone);
  }
}

TEST_CASE("a thread and a replica per device end with the same bits, too") {
  for (const int n : {1, 2, 3, 4}) {
    CAPTURE(n);
    std::vector<Device> devices;
    for (int d = 0; d < n; ++d) devices.push_back({DeviceType::cpu, d});
    tiny::Model model;
    DataParallel parallel(*model.loss, devices);
    AdamW optimizer(*model.loss, tiny::adamw());
    LoaderOptions options = tiny::loader_options(0, 1);
    options.batch_size = tiny::kRows * static_cast<std::size_t>(n);  // it deals them out itself
    Loader loader(tiny::datasets(), model.encoder.tokenizer(), options);
    for (int step = 0; step < tiny::kSteps; ++step) {
      (*model.loss)(tiny::next(loader)).backward();
      optimizer.step();
      optimizer.zero_grad();
    }
    CHECK(tiny::bits(*model.loss) == expected(n));
  }
}
