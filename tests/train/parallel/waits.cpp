// On a GPU the host runs ahead of the device: no strategy makes it wait in a step.
#include <doctest/doctest.h>

#include "../../delayed_device.h"
#include "every_strategy.h"
#include "ringlet/core/device/backend.h"
#include "ringlet/tests/comm/ranks.h"

using namespace ringlet;
using namespace ringlet::train;

namespace {

/// Null on other devices, which have no counters.
const DelayedDevice* counting_device() {
  const DeviceType type = default_device().type;
  return type == DeviceType::cpu ? nullptr : dynamic_cast<const DelayedDevice*>(&backend(type));
}

/// Over all ranks, in the steps after the first two.
int dry_steps(const DelayedDevice& device, const tiny::Parallel& parallel,
              comm::TransportKind transport) {
  std::atomic<int> begin{0}, end{0};
  comm::launch(
      [&](const comm::Group& group) {
        tiny::Model model;
        const auto attached = parallel.attach(model, group);
        tiny::Training training(model, group);
        Optimizer& optimizer = training.optimizer;
        for (int step = 0; step < tiny::kSteps; ++step) {
          group.barrier();
          if (step == 2) begin = device.ran_dry();
          group.barrier();
          training.forward().backward();
          optimizer.prepare_step();
          optimizer.launch_step();
          optimizer.end_step();
          optimizer.check_steps(/*late=*/1);
          optimizer.zero_grad();
        }
        group.barrier();
        end = device.ran_dry();
        group.barrier();
      },
      2, {.group = {.transport = transport}});
  return end - begin;
}

}  // namespace

TEST_CASE("a steady step under any strategy, over any transport, does not wait for the device") {
  const DelayedDevice* device = counting_device();
  if (!device) {
    MESSAGE("skipped: needs --device delayed, which counts");
    return;
  }
  for (const comm::TransportKind transport : comm::transports()) {
    for (const tiny::Parallel& parallel : tiny::every_strategy()) {
      CAPTURE(name(transport));
      CAPTURE(parallel.name);
      CHECK(dry_steps(*device, parallel, transport) == 0);
    }
  }
}
