// The predicted speed-up of a run, and the cause of a shortfall: with made-up steps, so that each
// term is once the cause.
#include "ringlet/bench/predicted.h"

#include <doctest/doctest.h>

#include <cmath>
#include <numbers>
#include <string>

#include "ringlet/bench/scaling_network.h"
#include "ringlet/comm/launch.h"

using ringlet::bench::Excess;
using ringlet::bench::Link;
using ringlet::bench::LinkTimes;
using ringlet::bench::Measurement;
using ringlet::bench::model_step;
using ringlet::bench::network_of;
using ringlet::bench::Predicted;
using ringlet::bench::PredictedRow;
using ringlet::bench::Row;
using ringlet::bench::Step;
using ringlet::bench::ThroughputOptions;
using ringlet::bench::time_link;
using ringlet::models::EncoderConfig;
using ringlet::train::Strategy;

namespace {

constexpr Strategy kAll[] = {Strategy::dp, Strategy::ddp, Strategy::zero1, Strategy::zero2,
                             Strategy::fsdp};
const LinkTimes kLink{2, {{4096, 5e-6}, {1048576, 200e-6}, {33554432, 6e-3}}};

/// Milliseconds of a step.
struct Phases {
  double data, forward, backward, optimizer, exposed = 0;
};
const Phases kAlone{1, 100, 200, 40};

Row row_of(const std::string& strategy, int devices, const Phases& ms) {
  Measurement one;
  one.step_ms = {ms.data + ms.forward + ms.backward + ms.optimizer};
  one.phase_ms = {{{ms.data}, {ms.forward}, {ms.backward}, {ms.optimizer}}};
  one.exposed_ms = ms.exposed;
  one.pairs = 32.0 * devices;
  one.sentences = 64.0 * devices;
  one.real_tokens = 900.0 * devices;
  return {strategy, devices, "f32", "", strategy != "unconnected", {one}};
}

ThroughputOptions two_devices() {
  ThroughputOptions options;
  options.devices = 2;
  options.threads = 1;
  return options;
}

Predicted predict(const std::vector<Row>& rows, const ThroughputOptions& options = two_devices()) {
  return ringlet::bench::predict(rows, EncoderConfig::named("mpnet-base"), kLink, options);
}

Step modelled(const Predicted& predicted, Strategy strategy, double rows = 900,
              const ThroughputOptions& options = two_devices()) {
  return model_step(predicted.device, network_of(EncoderConfig::named("mpnet-base"), 4, rows),
                    link_of(kLink, options), strategy, 2);
}

/// A step with exactly the modelled times.
Phases as_modelled(const Step& step) {
  const double waits = 1e3 * (step.exposed_s - step.gather_s);
  const double both = 1e3 * step.compute_s - kAlone.data;
  return {kAlone.data, both / 3, both * 2 / 3 + waits, 1e3 * (step.optimizer_s + step.gather_s),
          1e3 * step.exposed_s};
}

/// Two devices with steps that differ by 22 ms.
Row side_by_side() {
  Row row = row_of("unconnected", 2, kAlone);
  row.rounds[0].rank_variance_ms2 = 242;
  return row;
}

PredictedRow beside(Strategy strategy, const Phases& ms, std::vector<Row> others = {}) {
  others.push_back(row_of("none", 1, kAlone));
  others.push_back(row_of(strategy_name(strategy), 2, ms));
  const Predicted predicted = predict(others);
  const PredictedRow* row = predicted.find(row_of(strategy_name(strategy), 2, ms));
  REQUIRE(row);
  REQUIRE(row->measured);
  return *row;
}

/// The steps become graphs, without separate phases.
Row replayed(Row row) {
  row.rounds[0].replayed = 1;
  for (const std::size_t phase : {1, 2, 3}) row.rounds[0].phase_ms[phase].clear();
  return row;
}

}  // namespace

TEST_CASE("a step that takes what the model says is as fast as predicted, and nothing is beyond") {
  const Predicted alone = predict({row_of("none", 1, kAlone)});
  CHECK(alone.device.seconds() == doctest::Approx(0.341));
  CHECK(alone.device.optimizer_s == doctest::Approx(0.040));
  CHECK(alone.device.samples == 32);
  for (const Strategy strategy : kAll) {
    CAPTURE(strategy_name(strategy));
    const Step step = modelled(alone, strategy);
    REQUIRE(step.exposed_s > 0);
    const PredictedRow row = beside(strategy, as_modelled(step));
    CHECK(row.speedup == doctest::Approx(2 * 0.341 / step.seconds()));
    CHECK(row.measured->speedup == doctest::Approx(row.speedup));
    for (const auto& [term, ms] : row.measured->excess.terms())
      CHECK(ms == doctest::Approx(0).scale(1).epsilon(1e-6));
  }
}

TEST_CASE("ranks that stray as unconnected ones do wait as modelled, and nothing is beyond") {
  const Predicted stray = predict({row_of("none", 1, kAlone), side_by_side()});
  CHECK(stray.stray == "unconnected");
  CHECK(stray.device.spread == doctest::Approx(std::sqrt(242) / 341));
  const double late = stray.device.spread / std::sqrt(std::numbers::pi);
  for (const Strategy strategy : kAll) {
    CAPTURE(strategy_name(strategy));
    const Step step = modelled(stray, strategy);
    CHECK(step.straggler_s > 0.9 * late * 0.3);
    const PredictedRow row = beside(strategy, as_modelled(step), {side_by_side()});
    CHECK(row.speedup == doctest::Approx(2 * 0.341 / step.seconds()));
    CHECK(row.measured->speedup == doctest::Approx(row.speedup));
    for (const auto& [term, ms] : row.measured->excess.terms())
      CHECK(ms == doctest::Approx(0).scale(1).epsilon(1e-6));
    // Without the spread the waits are blamed: under DP its own computing.
    const Excess blamed = beside(strategy, as_modelled(step)).measured->excess;
    CHECK(std::string(blamed.blame()) == (strategy == Strategy::dp ? "compute" : "collectives"));
    CHECK(blamed.sum() == doctest::Approx(1e3 * step.straggler_s));
  }
  CHECK(to_markdown(stray).find("strays by 4.6 % (between those of `unconnected`), so the slowest "
                                "of 2 is expected to take 2.6 % longer") != std::string::npos);
}

TEST_CASE("without unconnected devices ranks stray as one device's rounds do") {
  Row none = row_of("none", 1, kAlone);
  CHECK(predict({none}).device.spread == 0);
  CHECK(to_markdown(predict({none})).find("strays") == std::string::npos);
  none.rounds.push_back(none.rounds[0]);
  none.rounds[0].step_ms = {330, 352};
  none.rounds[1].step_ms = {352, 330};
  const Predicted predicted = predict({none});
  CHECK(predicted.stray == "none");
  CHECK(predicted.device.spread == doctest::Approx(22 / 341.0));
  CHECK(to_markdown(predicted).find("that of `none`, by its rounds") != std::string::npos);
}

TEST_CASE("each term is to blame for the ms that it alone has beyond the model, or has not") {
  const Predicted alone = predict({row_of("none", 1, kAlone)});
  for (const Strategy strategy : {Strategy::dp, Strategy::ddp, Strategy::fsdp, Strategy::zero1})
    for (const double ms : {30.0, -0.5}) {
      CAPTURE(strategy_name(strategy));
      CAPTURE(ms);
      const Step step = modelled(alone, strategy);
      const auto blamed = [&](const auto& change) {
        Phases phases = as_modelled(step);
        change(phases);
        const Excess excess = beside(strategy, phases).measured->excess;
        CHECK(excess.sum() == doctest::Approx(ms));
        for (const auto& [term, each] : excess.terms())
          CHECK(
              each ==
              doctest::Approx(term == std::string(excess.blame()) ? ms : 0).scale(1).epsilon(1e-6));
        return std::string(excess.blame());
      };
      CHECK(blamed([&](Phases& phases) { phases.backward += ms; }) == "compute");
      CHECK(blamed([&](Phases& phases) { phases.optimizer += ms; }) == "optimizer");
      CHECK(blamed([&](Phases& phases) { phases.data += ms; }) == "data");
      CHECK(blamed([&](Phases& phases) {
              const double behind = step.gather_s / step.exposed_s;
              phases.exposed += ms;
              phases.backward += (1 - behind) * ms;
              phases.optimizer += behind * ms;
            }) == "collectives");
    }
}

TEST_CASE("the largest of several terms is named as the cause, in the direction of their sum") {
  CHECK(std::string(Excess{3, 5, -1, 0}.blame()) == "collectives");
  CHECK(std::string(Excess{3, -5, -1, 0}.blame()) == "collectives");
  CHECK(std::string(Excess{6, -5, 0, 0}.blame()) == "compute");
  CHECK(std::string(Excess{0, 0, 0, 2}.blame()) == "data");
}

TEST_CASE(
    "steps that are launched op by op are modelled from such a step, not from a replayed one") {
  const Phases eager{1, 110, 220, 44};
  const Row none = replayed(row_of("none", 1, {1, 80, 160, 35}));
  const Row side = row_of("unconnected", 2, eager);
  const Step step = modelled(predict({none, side}), Strategy::ddp);
  const Row ddp = row_of("ddp", 2, {1, 110, 220 + 1e3 * step.exposed_s, 44, 1e3 * step.exposed_s});
  const Predicted predicted = predict({none, side, ddp});
  CHECK(predicted.from == "unconnected");
  CHECK(predicted.phases);
  CHECK(predicted.device.samples == 32);
  CHECK(predicted.device.forward_s == doctest::Approx(0.331 / 3));
  CHECK(predicted.device.optimizer_s == doctest::Approx(0.044));
  CHECK(predicted.launched == doctest::Approx(375.0 / 276));
  const PredictedRow* row = predicted.find(ddp);
  CHECK(row->speedup == doctest::Approx(2 * 0.276 / step.seconds()));
  CHECK(row->measured->speedup == doctest::Approx(row->speedup));
  CHECK(row->measured->excess.sum() == doctest::Approx(0).scale(1).epsilon(1e-6));
  CHECK(to_markdown(predicted).find(
            "launched op by op beside the others it takes 1.36 times as long") !=
        std::string::npos);
}

TEST_CASE("where there is but a replayed step its phases are a guess, and launches are computing") {
  const Row none = replayed(row_of("none", 1, kAlone));
  const Row ddp = row_of("ddp", 2, {1, 120, 230, 50, 10});
  const Predicted predicted = predict({none, ddp});
  CHECK(predicted.from == "none");
  CHECK_FALSE(predicted.phases);
  CHECK(predicted.device.backward_s == doctest::Approx(2 * predicted.device.forward_s));
  CHECK(predicted.device.seconds() == doctest::Approx(0.341));
  const Excess excess = predicted.find(ddp)->measured->excess;
  CHECK(excess.optimizer == 0);
  CHECK(excess.sum() == doctest::Approx(401 - 1e3 * modelled(predicted, Strategy::ddp).seconds()));
  const std::string table = to_markdown(predicted);
  CHECK(table.find("Phases are not apart") != std::string::npos);
  CHECK(table.find("what launching them costs counts as compute") != std::string::npos);
}

TEST_CASE("a GPU computes beside its collectives, and sends the embedding's gradient as a whole") {
  ThroughputOptions options = two_devices();
  options.device = {ringlet::DeviceType::cuda, 0};
  const Predicted predicted = predict({row_of("none", 1, kAlone)}, options);
  const Step step = modelled(predicted, Strategy::ddp, 0, options);
  CHECK(predicted.rows[1].speedup == doctest::Approx(2 * 0.341 / step.seconds()));
  CHECK(step.exposed_s < modelled(predicted, Strategy::ddp, 0).exposed_s);
}

TEST_CASE("bytes that the columns of a pair send separately are predicted separately") {
  ThroughputOptions options = two_devices();
  options.per_column = true;
  const std::vector<Row> rows{row_of("none", 1, kAlone)};
  CHECK(predict(rows, options).device.forwards == 2);
  CHECK(predict(rows, options).rows[4].speedup < predict(rows).rows[4].speedup);
}

TEST_CASE("the table: measured figures beside modelled ones, and the cause of the difference") {
  const Predicted predicted =
      predict({row_of("none", 1, kAlone), row_of("unconnected", 2, {1, 110, 220, 44}),
               row_of("ddp", 2, {1, 200, 400, 81, 30})});
  CHECK(predicted.unconnected == doctest::Approx(1.1));
  const std::string table = to_markdown(predicted);
  CAPTURE(table);
  const auto has = [&](const char* text) { return table.find(text) != std::string::npos; };
  CHECK(has("| speed-up, measured | speed-up, modelled |"));
  CHECK(has("| ddp | 2 | 1.000 | "));
  CHECK(has(" % | compute, +"));
  CHECK(has("| dp | 2 | - | "));
  CHECK(has("compute 1.10 times as long as one alone"));
  CHECK(has("4 KiB in 5.0 us, 32 MiB at 5.59 GB/s"));
  CHECK(predicted.find(row_of("none", 1, kAlone)) == nullptr);
  CHECK(predicted.find(row_of("ddp", 1, kAlone)) == nullptr);
}

TEST_CASE("the link that the ranks time is the one that the model has") {
  LinkTimes times;
  ringlet::comm::launch(
      [&](const ringlet::comm::Group& group) {
        const LinkTimes mine = time_link(group, {});
        if (group.rank() == 0) times = LinkTimes::from_text(mine.to_text());
      },
      3);
  CHECK(times.ranks == 3);
  REQUIRE(times.all_reduce.size() == 3);
  ThroughputOptions options = two_devices();
  options.threads = 2;
  const Link link = link_of(times, options);
  CHECK(link.share == 0.5);
  CHECK(link.shared_memory);
  for (const auto& [bytes, seconds] : times.all_reduce) {
    CHECK(seconds > 0);
    CHECK(link.all_reduce(3, bytes) == doctest::Approx(seconds));
  }
}
