// DataParallel of modules other than losses over sentences.
#include "ringlet/ringlet.h"

#include <doctest/doctest.h>
#include <sched.h>
#include <sys/resource.h>

#include <array>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <string>

#include "../../core/child.h"
#include "../../delayed_device.h"
#include "ringlet/comm/launcher/cores.h"
#include "ringlet/core/device/backend.h"
#include "ringlet/train/parallel/workers.h"
#include "tiny.h"

using namespace ringlet;
using namespace ringlet::train;

namespace {

/// One device's rows of a batch of five digits.
struct Part {
  Tensor images, labels, positions;
};

Part part_of(const Tensor& images, std::int64_t begin, std::int64_t end, std::int64_t row) {
  std::vector<std::int64_t> labels;
  std::vector<std::int32_t> positions;
  for (std::int64_t i = begin; i < end; ++i) {
    labels.push_back((row + i) % 10);
    positions.insert(positions.end(), {static_cast<std::int32_t>(i), 0});
  }
  return {images.slice(begin, end), tensor(labels, {end - begin}),
          tensor(positions, {end - begin, 2})};
}

Variable part_of_loss(models::Convnet& net, const Part& part, Device device) {
  return autograd::cross_entropy(net(Variable(part.images.to(device)), part.positions.to(device)),
                                 part.labels.to(device), 5.0);
}

/// A parameter that all parts use, and experts of which each device's part uses one or none.
struct Experts : nn::Layer<Experts> {
  std::shared_ptr<nn::Module> blank_copy(nn::Cloner&) const override {
    return std::make_shared<Experts>();
  }
  Variable forward(std::size_t expert, double scale) {
    const Variable x(full({4}, scale, DType::f32, shared.device()));
    return autograd::sum(autograd::mul(autograd::mul(x, shared), experts[expert]));
  }
  nn::Parameter shared = register_parameter("shared", ones({4}));
  std::vector<nn::Parameter> experts{register_parameter("expert.0", ones({4})),
                                     register_parameter("expert.1", ones({4})),
                                     register_parameter("expert.2", ones({4}))};
};

}  // namespace

TEST_CASE("under a launcher that pins, devices of one process share out its processors" *
          doctest::test_suite("host")) {
  const std::vector<Device> devices{Device::parse("cpu:0"), Device::parse("cpu:1")};
  const auto shares = comm::share_cores(2);
  if (shares[0].empty()) return;  // one processor
  comm::launch(
      [&](const comm::Group&) {
        const std::size_t all = comm::processors().size();
        // Empty counts as unset. The second pinned one finds the same as the first.
        for (const std::string says : {"unset", "", "1", "1"}) {
          if (says != "unset") setenv(comm::kPinned, says.c_str(), 1);
          const bool pinned = says == "1";
          RINGLET_CHECK_EQ(comm::processors().size(), all, "of the thread that calls");
          models::Convnet net;
          DataParallel parallel(net, devices);
          parallel.sum([&](nn::Module&, std::size_t d) {
            cpu_set_t set;
            RINGLET_CHECK(sched_getaffinity(0, sizeof(set), &set) == 0, "no affinity");
            const std::size_t expected = pinned ? shares[d].size() : all;
            RINGLET_CHECK_EQ(static_cast<std::size_t>(CPU_COUNT(&set)), expected, "device ", d);
            if (pinned)
              for (const int processor : shares[d])
                RINGLET_CHECK(CPU_ISSET(processor, &set), "device ", d, " on ", processor);
            return Variable(zeros({}));
          });
        }
      },
      1, {.ranks = comm::Ranks::processes});
}

TEST_CASE("any module trains by sum(): the bits of its devices in turn") {
  const std::vector<Device> devices = tiny::devices(2);
  const GeneratorGuard guard({3, 0, 0});
  models::Convnet net, alone;
  for (std::size_t i = 0; i < net.parameters().size(); ++i)
    alone.parameters()[i].mutable_tensor().copy_(net.parameters()[i].tensor());
  DataParallel parallel(net, devices, {.timed = true});
  Sgd optimizer(net, {.lr = 0.1}), other(alone, {.lr = 0.1});
  for (std::int64_t step = 0; step < 3; ++step) {
    const RandomGenerator before = default_generator();
    const Tensor images = normal({5, 1, 28, 28});
    const std::vector<Part> parts{part_of(images, 0, 3, step), part_of(images, 3, 5, step)};
    const RandomGenerator at = default_generator();
    const Variable value = parallel.sum([&](nn::Module& replica, std::size_t d) {
      return part_of_loss(dynamic_cast<models::Convnet&>(replica), parts[d], devices[d]);
    });
    value.backward();

    std::vector<Tensor> sums;
    float sum = 0;
    for (const Part& part : parts) {
      default_generator() = at;
      alone.zero_grad();
      const Variable one = part_of_loss(alone, part, devices[0]);
      sum += one.item();
      one.backward();
      for (std::size_t i = 0; i < alone.parameters().size(); ++i) {
        const Tensor grad = alone.parameters()[i].grad();
        if (sums.size() == i) {
          sums.push_back(grad.clone());
        } else {
          axpby(sums[i], 1, grad, 1);
        }
      }
    }
    CHECK(value.item() == sum);
    for (std::size_t i = 0; i < sums.size(); ++i) {
      CHECK(net.parameters()[i].grad().to_vector() == sums[i].to_vector());
      alone.parameters()[i].state()->grad_buffer.copy_(sums[i]);
    }
    default_generator() = before;
    optimizer.step();
    default_generator() = before;
    other.step();
    for (std::size_t i = 0; i < sums.size(); ++i)
      CHECK(net.parameters()[i].tensor().to_vector() == alone.parameters()[i].tensor().to_vector());
    optimizer.zero_grad();
    other.zero_grad();
  }
  CHECK(parallel.seconds_exchanging() > 0);
}

TEST_CASE("gradients that only some devices have are summed, whatever the first one's part uses") {
  Experts net;
  DataParallel parallel(net, tiny::devices(3));
  constexpr int kNone = -1;
  // Each device's part uses one expert or none; its gradients are the device's number, from 1.
  const auto backward = [&](std::array<int, 3> experts) {
    parallel
        .sum([&](nn::Module& replica, std::size_t d) {
          if (experts[d] == kNone) return Variable(zeros({}));
          return dynamic_cast<Experts&>(replica)(static_cast<std::size_t>(experts[d]),
                                                 static_cast<double>(d + 1));
        })
        .backward();
  };
  const auto grads = [&] {
    std::vector<float> all;
    for (const nn::Parameter& parameter : net.parameters())
      all.push_back(parameter.grad().defined() ? parameter.grad().to_vector()[3] : 0);
    return all;
  };
  using Grads = std::vector<float>;
  backward({0, 1, 2});
  CHECK(grads() == Grads{6, 1, 2, 3});
  backward({1, 2, 0});  // added to the sums
  CHECK(grads() == Grads{12, 4, 3, 5});
  {
    const NoSync no_sync = parallel.no_sync();
    backward({kNone, kNone, 0});
  }
  backward({kNone, 1, kNone});
  CHECK(grads() == Grads{17, 7, 5, 5});
  net.zero_grad();
  {
    const NoSync no_sync = parallel.no_sync();
    backward({0, 1, 2});
  }
  Sgd optimizer(net, {.lr = 1});
  CHECK_THROWS_WITH_AS(
      optimizer.step(),
      "[optimizer] the gradient of 'shared' is not summed: run a step's last backward without "
      "no_sync, or discard it with zero_grad()",
      Error);
  net.zero_grad();  // also of the parameters on the other devices
  backward({1, 0, 0});
  CHECK(grads() == Grads{6, 5, 1, 0});
  CHECK_FALSE(net.experts[2].grad().defined());
  net.zero_grad();
  net.experts[1].set_requires_grad(false);
  backward({0, 1, 2});
  CHECK(grads() == Grads{6, 1, 0, 3});
  CHECK_FALSE(net.experts[1].grad().defined());
}

TEST_CASE("averaged, value and gradients are the mean over the devices") {
  Experts net;
  DataParallel parallel(net, tiny::devices(2), {.average = true});
  for (int i = 1; i <= 2; ++i) {
    const Variable value = parallel.sum([&](nn::Module& replica, std::size_t d) {
      return dynamic_cast<Experts&>(replica)(d, 1 + 2 * static_cast<double>(d));
    });
    CHECK(value.item() == (4 * 1 + 4 * 3) / 2);
    value.backward();
    CHECK(net.shared.grad().to_vector()[0] == 2 * i);  // sums of several backwards are added
    CHECK(net.experts[1].grad().to_vector()[0] == 1.5 * i);
  }
}

TEST_CASE("averaged, the gradient of a leaf outside the module is divided, too") {
  Experts net;
  DataParallel parallel(net, tiny::devices(2), {.average = true});
  const Variable outside(full({4}, 3.0), true);
  for (int i = 1; i <= 2; ++i) {
    parallel
        .sum([&](nn::Module& replica, std::size_t d) {
          const Variable value = dynamic_cast<Experts&>(replica)(d, 1);
          return d > 0 ? value : value + autograd::sum(outside * outside);
        })
        .backward();
    CHECK(outside.grad().to_vector() == std::vector<float>(4, 3.0F * static_cast<float>(i)));
    CHECK(net.experts[1].grad().to_vector()[0] == 0.5 * i);
  }
}

TEST_CASE("a backward that throws leaves the earlier gradient of a leaf outside the module") {
  Experts net;
  DataParallel parallel(net, tiny::devices(2), {.average = true});
  const Variable outside(full({4}, 3.0), true);
  const auto backward = [&](bool throws) {
    const Tensor factor = full({4}, 2.0);
    const Variable value = parallel.sum([&](nn::Module& replica, std::size_t d) {
      const Variable part = dynamic_cast<Experts&>(replica)(d, 1);
      return d > 0 ? part : part + autograd::sum(outside * Variable(factor));
    });
    if (throws) Tensor(factor).fill_(5);  // saved for backward
    value.backward();
  };
  backward(false);
  CHECK_THROWS_AS(backward(true), Error);
  CHECK(outside.grad().to_vector() == std::vector<float>(4, 1.0F));
}

TEST_CASE("exchanging takes what the first device is at it, not the host that gives it the work") {
  const DeviceType type = default_device().type;
  if (type == DeviceType::cpu || !dynamic_cast<const DelayedDevice*>(&backend(type))) {
    MESSAGE("skipped: needs --device delayed, whose clock counts its work");
    return;
  }
  const std::vector<Device> devices = tiny::devices(2);
  const GeneratorGuard guard({3, 0, 0});
  models::Convnet net;
  const auto step = [&](DataParallel& parallel) {
    const Part part = part_of(normal({5, 1, 28, 28}), 0, 3, 0);
    parallel
        .sum([&](nn::Module& replica, std::size_t d) {
          return part_of_loss(dynamic_cast<models::Convnet&>(replica), part, devices[d]);
        })
        .backward();
    return parallel.seconds_exchanging();
  };
  {
    DataParallel parallel(net, devices, {.timed = true});
    const double ticks = step(parallel) / DelayedDevice::kTick;
    CHECK(ticks >= 3);  // parameters sent, gradients fetched, at least one sum
    CHECK(std::abs(ticks - std::round(ticks)) < 1e-6);
  }
  DataParallel parallel(net, devices);
  CHECK(step(parallel) == 0);
}

TEST_CASE("GPUs that do not read the first one's memory are said once, as a group says them" *
          doctest::test_suite("host")) {
  const std::vector<Device> devices{
      {DeviceType::cuda, 0}, {DeviceType::cuda, 0}, {DeviceType::cuda, 1}, {DeviceType::cuda, 2}};
  for (const bool cut : {false, true}) {
    DelayedDevice device(5);
    if (cut) device.cut_links();
    models::Convnet net;
    net.to(devices[0]);
    std::vector<std::string> notes;
    const auto note = [&](const std::string& line) { notes.push_back(line); };
    const DataParallel parallel(net, devices, {.on_note = note});
    REQUIRE(notes.size() == (cut ? 1 : 0));
    if (cut)
      CHECK(notes[0] ==
            "[dp] cuda:0 has no peer access to cuda:1: copies between such GPUs go through pinned "
            "memory of the host; `ringlet info` shows which read each other's");
  }
}

TEST_CASE("workers of which some cannot start are an error, not the end of the program" *
          doctest::test_suite("host")) {
  CHECK(exit_code_of([] {
          std::size_t pages = 0;
          std::ifstream("/proc/self/statm") >> pages;
          // Room for the stacks of a few threads.
          const rlimit little{pages * 4096 + (std::size_t{1} << 26), RLIM_INFINITY};
          if (setrlimit(RLIMIT_AS, &little) != 0) return 1;
          try {
            const Workers workers(1000);
          } catch (const std::system_error& error) {
            return std::string(error.what()).starts_with("cannot start a thread: ") ? 0 : 2;
          }
          return 3;
        }) == 0);
}
