#include "ringlet/train/parallel/step_traffic.h"

#include "ringlet/train/parallel/model/attached_strategy.h"
#include "tiny.h"

using namespace ringlet;
using namespace ringlet::train;

TEST_SUITE_BEGIN("host");

namespace {

/// The tiny model with scored pairs; its table is so small that its gradient is sent whole.
struct Scored {
  Scored() : encoder(config(), words::tokenizer()), loss(encoder) {}
  static models::EncoderConfig config() {
    models::EncoderConfig config = tiny::config();
    config.vocab_size = 9;
    return config;
  }
  models::SentenceEncoder encoder;
  models::CosineSimilarityLoss loss;
};

/// Bytes that this rank sends in the second step, by the group's counter.
std::size_t sent_by(Strategy strategy, const comm::Group& group) {
  Scored model;
  const AttachedStrategy attached(strategy, model.loss, group, {});
  AdamW optimizer(model.loss, tiny::adamw());
  Loader loader({words::scored_dataset(40)}, model.encoder.tokenizer(), {.batch_size = 8}, group);
  std::uint64_t before = 0;
  for (int step = 0; step < 2; ++step) {
    const models::PackedBatch batch = tiny::next(model.loss, loader);
    before = group.stats().bytes_sent;
    model.loss(batch).backward();
    optimizer.step();
    optimizer.zero_grad();
  }
  return static_cast<std::size_t>(group.stats().bytes_sent - before);
}

}  // namespace

TEST_CASE("the traffic of a step is what each rank's group counts in one") {
  for (const Strategy strategy : kStrategiesOfRanks)
    for (const comm::Algorithm algorithm : {comm::Algorithm::direct, comm::Algorithm::ring}) {
      CAPTURE(kStrategies(strategy));
      CAPTURE(comm::name(algorithm));
      const auto compare = [&](const comm::Group& group) {
        Scored model;
        const StepTraffic traffic =
            step_traffic(strategy, model.loss, group.rank(), group.size(), algorithm);
        CHECK(traffic.total() > 0);
        CHECK_EQ(sent_by(strategy, group), traffic.total());
      };
      for (const int n : {2, 4}) comm::launch(compare, n, {.group = {.algorithm = algorithm}});
    }
}

TEST_CASE("all ranks send 2 (n - 1) parameters together; fsdp gathers those of layers once more") {
  const models::SentenceEncoder encoder(tiny::deep_config(), words::tokenizer());
  models::CosineSimilarityLoss loss(encoder);
  const auto arena = nn::plan(loss);
  double all = 0, layers = 0;  // without the gaps between units, which ddp sums with the rest
  for (const nn::Unit& unit : arena->units()) {
    all += static_cast<double>(unit.end - unit.begin);
    if (unit.layer) layers += static_cast<double>(unit.end - unit.begin);
  }
  CHECK(layers > 0.1 * all);
  for (const int n : {1, 2, 4, 8}) {
    CAPTURE(n);
    const auto parameters_sent = [&](Strategy strategy) {
      double bytes = 0;
      for (int rank = 0; rank < n; ++rank) {
        const StepTraffic traffic = step_traffic(strategy, loss, rank, n);
        bytes += static_cast<double>(traffic.total() - traffic.norm);
      }
      return bytes / sizeof(float);
    };
    CHECK(parameters_sent(Strategy::none) == 0);
    CHECK(parameters_sent(Strategy::ddp) == 2.0 * (n - 1) * static_cast<double>(arena->numel()));
    for (const Strategy strategy : {Strategy::zero1, Strategy::zero2})
      CHECK(parameters_sent(strategy) == 2 * (n - 1) * all);
    CHECK(parameters_sent(Strategy::fsdp) == (n - 1) * (2 * all + layers));
  }
}

TEST_SUITE_END();
