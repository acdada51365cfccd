// The alpha-beta model: its formulas by hand, and its limits.
#include "ringlet/bench/scaling_model.h"

#include <doctest/doctest.h>

#include "ringlet/core/error.h"

TEST_SUITE_BEGIN("host");

using ringlet::bench::calibrate;
using ringlet::bench::DeviceStep;
using ringlet::bench::Link;
using ringlet::bench::model_rate;
using ringlet::bench::model_step;
using ringlet::bench::Network;
using ringlet::bench::Step;
using ringlet::train::Strategy;

namespace {

constexpr double kMiB = 1 << 20;
constexpr Strategy kAll[] = {Strategy::dp, Strategy::ddp, Strategy::zero1, Strategy::zero2,
                             Strategy::fsdp};

Link nodes_of_8() {
  Link link;
  link.node = 8;
  link.base_s = 8e-6;
  link.hop_s = 3e-6;
  link.rate = 100e9;
  link.node_hop_s = 14e-6;
  link.node_rate = 50e9;
  return link;
}

// Layers of 25 MiB and a table of 90 MiB.
const Network kNetwork{12, 25 * kMiB, 90 * kMiB, 0, 2 * kMiB};
const DeviceStep kDevice{
    .samples = 32, .forward_s = 0.01, .backward_s = 0.02, .optimizer_s = 0.004};

}  // namespace

TEST_CASE("a ring's steps: 2 (n - 1) hops, 2 (n - 1) / n of the bytes; between nodes slower") {
  const Link link = nodes_of_8();
  CHECK(link.ring(8, 100e6, 2) == doctest::Approx(8e-6 + 14 * 3e-6 + 1.75e-3));
  CHECK(link.ring(8, 100e6, 1) == doctest::Approx(8e-6 + 7 * 3e-6 + 0.875e-3));
  // One of 15 hops leads to the other node and takes 1.4 times its latency.
  CHECK(link.ring(16, 100e6, 1) ==
        doctest::Approx(8e-6 + 14 * 3e-6 + 1.4 * 14e-6 + 15 / 16.0 * 100e6 / 50e9));
}

TEST_CASE("direct takes one hop a pass, and between nodes all that leaves goes out at once") {
  const Link link = nodes_of_8();
  CHECK(link.direct(8, 100e6, 2) == doctest::Approx(8e-6 + 2 * 3e-6 + 1.75e-3));
  CHECK(link.direct(16, 100e6, 1) == doctest::Approx(8e-6 + 14e-6 + 8 * 0.5 * 100e6 / 50e9));
  CHECK(link.all_reduce(8, 1e3) == link.direct(8, 1e3, 2));
  CHECK(link.all_reduce(16, 100e6) == link.ring(16, 100e6, 2));
}

TEST_CASE("NCCL's tree grows with the logarithm of the nodes") {
  Link link = nodes_of_8();
  const double tree = 8e-6 + 2 * (7 * 4e-6 + 5 * 14e-6 + 1e6 / (0.92 * 50e9));
  CHECK(link.tree_all_reduce(256, 1e6) == doctest::Approx(tree));
  CHECK(link.all_reduce(256, 1e6) > tree);
  link.tree = true;
  CHECK(link.all_reduce(256, 1e6) == doctest::Approx(tree));
}

TEST_CASE("timed all-reduces are met, and between them lie on lines of the logarithms") {
  Link link;
  link.timed = {{1e3, 1e-6}, {1e5, 1e-4}, {1e6, 4e-4}};
  CHECK(link.all_reduce(2, 1e5) == doctest::Approx(1e-4));
  CHECK(link.all_reduce(2, 1e4) == doctest::Approx(1e-5));
  CHECK(link.all_reduce(2, 10) == doctest::Approx(1e-6));
  CHECK(link.all_reduce(2, 1e7) == doctest::Approx(4e-3));
  CHECK(link.reduce_scatter(2, 1e5) == doctest::Approx(5e-5));
  CHECK(link.all_reduce(4, 1e5) == doctest::Approx(1.5e-4));
}

TEST_CASE("a collective never gets shorter with more bytes or devices") {
  for (const bool tree : {false, true}) {
    Link link = nodes_of_8();
    link.tree = tree;
    double before = 0;
    for (double bytes = 1; bytes < 1e10; bytes *= 3) {
      const double now = link.all_reduce(16, bytes);
      CHECK(now >= before);
      before = now;
    }
    before = 0;
    for (int n = 1; n <= 100; ++n) {
      const double now = link.all_reduce(n, 50e6);
      CHECK(now >= before);
      before = now;
    }
  }
}

TEST_CASE("one device is what was measured, under every strategy") {
  for (const Strategy strategy : kAll) {
    const Step step = model_step(kDevice, kNetwork, nodes_of_8(), strategy, 1);
    CHECK(step.seconds() == doctest::Approx(0.034));
    CHECK(step.exposed_s == doctest::Approx(0));
    CHECK(step.sent_bytes == 0);
  }
}

TEST_CASE("over links that take no time n devices are n times as fast, sharded optimizers faster") {
  const Link link;
  for (const int n : {2, 8, 64}) {
    const double one = 32 / 0.034;
    CHECK(model_rate(kDevice, kNetwork, link, Strategy::dp, n) == doctest::Approx(n * one));
    CHECK(model_rate(kDevice, kNetwork, link, Strategy::ddp, n) == doctest::Approx(n * one));
    for (const Strategy sharded : {Strategy::zero1, Strategy::fsdp})
      CHECK(model_rate(kDevice, kNetwork, link, sharded, n) ==
            doctest::Approx(n * 32 / (0.03 + 0.004 / n)));
  }
}

TEST_CASE("slower links never help, and DDP is never faster than n devices") {
  for (const Strategy strategy : {Strategy::ddp, Strategy::zero1, Strategy::fsdp})
    for (const int n : {2, 8, 16, 64}) {
      double before = 0;
      for (double rate = 1e9; rate < 1e13; rate *= 4) {
        Link link = nodes_of_8();
        link.rate = link.node_rate = rate;
        const double now = model_rate(kDevice, kNetwork, link, strategy, n);
        CHECK(now >= before);
        before = now;
      }
      if (strategy == Strategy::ddp) CHECK(before <= n * 32 / 0.034);
    }
}

TEST_CASE("a bucket goes when its gradients are there and the one before it has gone") {
  // The layers' 26 MiB are one bucket of 1 and one of 25; the embeddings' 4 MiB are the last.
  const Network network{2, 13 * kMiB, 0, 0, 4 * kMiB};
  const DeviceStep device{.samples = 1, .forward_s = 1, .backward_s = 2.6};
  Link link;
  link.rate = 10 * kMiB;  // each of two devices sends the whole bucket
  // The buckets are ready at 1.1 and 3.6 s, and take 0.1, 2.5 and 0.4 s.
  const Step slow = model_step(device, network, link, Strategy::ddp, 2);
  CHECK(slow.compute_s == doctest::Approx(3.6));
  CHECK(slow.exposed_s == doctest::Approx(2.5 + 0.4));
  CHECK(slow.sent_bytes == doctest::Approx(30 * kMiB));
  // The second backward of two overlaps the same collectives; the first one sends nothing.
  DeviceStep twice = device;
  twice.accumulations = 2;
  const Step both = model_step(twice, network, link, Strategy::ddp, 2);
  CHECK(both.compute_s == doctest::Approx(7.2));
  CHECK(both.exposed_s == doctest::Approx(2.9));
  // If the same core does both, nothing is overlapped.
  link.share = 1;
  CHECK(model_step(device, network, link, Strategy::ddp, 2).exposed_s == doctest::Approx(3.0));
}

TEST_CASE("ZeRO-1 hides reduce-scatters behind backward, and no all-gather") {
  const Network network{2, 10 * kMiB, 0, 0, 4 * kMiB};
  const DeviceStep device{.samples = 1, .forward_s = 1, .backward_s = 8, .optimizer_s = 1};
  Link link;
  link.rate = 10 * kMiB;
  const Step step = model_step(device, network, link, Strategy::zero1, 2);
  // A layer's collectives take 0.5 s each way, those of the embeddings 0.2 s.
  CHECK(step.exposed_s == doctest::Approx(0.5 + 0.2 + 2 * 0.5 + 0.2));
  CHECK(step.gather_s == doctest::Approx(2 * 0.5 + 0.2));
  CHECK(step.optimizer_s == doctest::Approx(0.5));
  for (const Strategy other : {Strategy::dp, Strategy::ddp, Strategy::fsdp})
    CHECK(model_step(device, network, link, other, 2).gather_s == 0);
}

TEST_CASE("forward and backward share in their proportion what the optimizer leaves of a step") {
  const DeviceStep device = ringlet::bench::measured_step(32, 0.35, 0.1, 0.2, 0.05);
  CHECK(device.samples == 32);
  CHECK(device.forward_s == doctest::Approx(0.1));
  CHECK(device.backward_s == doctest::Approx(0.2));
  CHECK(ringlet::bench::measured_step(32, 0.65, 0.1, 0.2, 0.05).forward_s == doctest::Approx(0.2));
}

TEST_CASE("FSDP waits for the first unit, hides the others and gathers matrices in bf16") {
  const Network network{2, 10 * kMiB, 0, 0, 4 * kMiB};
  DeviceStep device{.samples = 1, .forward_s = 4, .backward_s = 8, .optimizer_s = 1};
  Link link;
  link.rate = 10 * kMiB;
  // Exposed: embeddings and the first layer before forward, the last layer before backward; the
  // reduce-scatter of the first layer and of the embeddings. The last layer's is overlapped.
  const Step f32 = model_step(device, network, link, Strategy::fsdp, 2);
  CHECK(f32.exposed_s == doctest::Approx(0.2 + 0.5 + 0.5 + 0.5 + 0.2));
  CHECK(f32.sent_bytes == doctest::Approx(3 * 12 * kMiB));
  device.bf16 = true;
  const Step bf16 = model_step(device, network, link, Strategy::fsdp, 2);
  CHECK(bf16.exposed_s == doctest::Approx(0.2 + 0.25 + 0.25 + 0.5 + 0.2));
  device.forwards = 2;
  CHECK(model_step(device, network, link, Strategy::fsdp, 2).sent_bytes ==
        doctest::Approx(bf16.sent_bytes + 7 * kMiB));
}

TEST_CASE("a table goes by rows until those of all devices are as many as it has") {
  const Network network{1, kMiB, 100 * kMiB, 10 * kMiB, 0};
  const auto sent = [&](int n) {
    return model_step(kDevice, network, nodes_of_8(), Strategy::ddp, n).sent_bytes / kMiB;
  };
  CHECK(sent(2) == doctest::Approx(1 + 10));
  CHECK(sent(8) == doctest::Approx(1.75 + 70));
  CHECK(sent(16) == doctest::Approx(2 * 15 / 16.0 * 101));
}

TEST_CASE("DP sends all through the first device, which has no more of them than a node") {
  const Network network{1, 60e6, 40e6, 0, 0};
  Link link = nodes_of_8();
  const double copy = 8e-6 + 3e-6 + 1e-3;
  CHECK(model_step(kDevice, network, link, Strategy::dp, 4).exposed_s == doctest::Approx(6 * copy));
  link.shared_memory = true;
  CHECK(model_step(kDevice, network, link, Strategy::dp, 4).exposed_s == doctest::Approx(3 * copy));
  CHECK_THROWS_WITH_AS(model_step(kDevice, network, link, Strategy::dp, 9),
                       "dp has its devices in one process, of which  has 8 at most, not 9",
                       ringlet::InputError);
}

TEST_CASE("the slowest of unlike ranks sets the pace, of one it is the mean") {
  DeviceStep device = kDevice;
  device.slowest = 1.5;
  CHECK(model_step(device, kNetwork, Link(), Strategy::ddp, 4).compute_s == doctest::Approx(0.045));
  CHECK(model_step(device, kNetwork, Link(), Strategy::none, 1).compute_s == doctest::Approx(0.03));
  // DP divides one batch.
  CHECK(model_step(device, kNetwork, Link(), Strategy::dp, 4).compute_s == doctest::Approx(0.03));
}

TEST_CASE("a calibrated device gives the rate that it was calibrated to") {
  DeviceStep device{.samples = 256, .optimizer_s = 0.001};
  for (const int n : {1, 8, 64}) {
    device = calibrate(device, kNetwork, nodes_of_8(), Strategy::ddp, n, 1000.0 * n);
    CHECK(model_rate(device, kNetwork, nodes_of_8(), Strategy::ddp, n) ==
          doctest::Approx(1000.0 * n));
    CHECK(device.backward_s == doctest::Approx(2 * device.forward_s));
  }
}

TEST_SUITE_END();
