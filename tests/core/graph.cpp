#include "ringlet/core/device/graph.h"

#include <doctest/doctest.h>

#include <functional>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "../delayed_device.h"
#include "../device.h"
#include "ringlet/core/base/error.h"
#include "ringlet/core/ops/elementwise.h"
#include "ringlet/core/ops/random.h"
#include "ringlet/core/tensor/host_copy.h"
#include "ringlet/core/tensor/tensor.h"
#include "ringlet/tests/message.h"

using namespace ringlet;

namespace {

/// The default device is one that captures: a delayed one in a program for CPUs.
class Capturing {
 public:
  Capturing() {
    if (before_.type == DeviceType::cuda) return;
    if (!has_backend(DeviceType::cuda)) delayed_.emplace();
    set_default_device({DeviceType::cuda, 0});
  }
  ~Capturing() { set_default_device(before_); }
  Capturing(const Capturing&) = delete;
  Capturing& operator=(const Capturing&) = delete;

  Device device() const { return default_device(); }
  bool has_graphs() const {
    const std::string why = why_no_graphs(device());
    if (!why.empty()) MESSAGE("skipped: nothing of ", device(), " is captured: ", why);
    return why.empty();
  }

 private:
  Device before_ = default_device();
  std::optional<DelayedDevice> delayed_;
};

}  // namespace

TEST_CASE_FIXTURE(OnCpu, "a CPU has no graphs, and says so") {
  CHECK(why_no_graphs(Device{}) == "it has no graphs");
  bool ran = false;
  CHECK(message_of([&] { capture(Device{}, [&] { ran = true; }); }) ==
        "[graph] nothing of cpu:0 can be captured: it has no graphs");
  CHECK(!ran);
  CHECK(!is_capturing());
  CHECK_NOTHROW(check_not_capturing("anything"));
}

TEST_CASE_FIXTURE(Capturing,
                  "a copy that another thread asks for meanwhile is no part of a graph: refused") {
  if (!has_graphs()) return;
  const Tensor here = ones({2}, DType::f32, Device{}), there = ones({2});
  Tensor out = zeros({2});
  std::vector<std::string> said;
  const auto graph = capture(device(), [&] {
    std::thread([&] {
      said.push_back(message_of([&] { here.to(there.device()); }));
      said.push_back(message_of([&] { there.to(Device{}); }));
      said.push_back(message_of([&] { HostCopy copy(there); }));
    }).join();
    out.copy_(there);
  });
  const std::string why = str(" while another thread captures what ", device(), " is given");
  CHECK(said == std::vector{"[graph] a copy to or from the device" + why,
                            "[graph] a copy to or from the device" + why,
                            "[graph] a copy to the host" + why});
  graph->replay();
  CHECK(out.to_vector() == std::vector{1.0f, 1.0f});
}

TEST_CASE_FIXTURE(Capturing, "a graph computes from what its tensors hold at each replay") {
  if (!has_graphs()) return;
  Tensor in = zeros({1000}), out = zeros({1000});
  const auto graph = capture(device(), [&] {
    CHECK(is_capturing());
    const Tensor between = add(in, in);
    out.copy_(mul(between, between));
  });
  CHECK(!is_capturing());
  CHECK(graph->nodes() == 3);
  CHECK(out.to_vector<float>()[0] == 0);  // nothing has run
  const MemoryStats before = memory_stats(device());
  for (const float x : {1.0f, 3.0f}) {
    in.fill_(x);
    graph->replay();
    CHECK(out.to_vector<float>() == std::vector<float>(1000, 4 * x * x));
  }
  const MemoryStats after = memory_stats(device());
  CHECK(after.allocations == before.allocations);
  CHECK(after.graphs > 0);
}

TEST_CASE_FIXTURE(Capturing, "graphs share their memory, and each has all of it") {
  if (!has_graphs()) return;
  Tensor in = ones({1 << 20}), out = zeros({1 << 20});
  const auto twice = capture(device(), [&] { out.copy_(add(add(in, in), zeros({1 << 20}))); });
  const std::size_t held = memory_stats(device()).graphs;
  const auto four_times = capture(device(), [&] {
    const Tensor two = add(in, in);
    out.copy_(add(two, two));
  });
  CHECK(memory_stats(device()).graphs == held);
  four_times->replay();
  CHECK(out.to_vector<float>()[77] == 4);
  twice->replay();
  CHECK(out.to_vector<float>()[77] == 2);
}

TEST_CASE_FIXTURE(Capturing,
                  "work that cannot be captured is an error, and leaves the device as it was") {
  if (!has_graphs()) return;
  const Tensor in = ones({4});
  Tensor kept, host = ones({4}, DType::f32, Device{});
  const auto words = [&](const std::function<void()>& work) {
    return message_of([&] { capture(device(), work); });
  };
  CHECK(words([&] { static_cast<void>(in.to_vector<float>()); }) ==
        "[graph] a copy to or from the device cannot be captured");
  CHECK(words([&] { static_cast<void>(host.to(device())); }) ==
        "[graph] a copy to or from the device cannot be captured");
  CHECK(words([&] { static_cast<void>(dropout(in, {.p = 0.5f}, {})); }) ==
        "[graph] dropout, whose masks are another step's next time, cannot be captured");
  CHECK(words([&] { capture(device(), [] {}); }) ==
        "[graph] a capture inside another cannot be captured");
  CHECK(words([&] { kept = add(in, in); }).find("outlive ") != std::string::npos);
  CHECK(!is_capturing());
  CHECK_NOTHROW(dropout(in, {.p = 0.5f}, {}));
  CHECK(add(in, in).to_vector<float>() == std::vector<float>(4, 2.0f));
}
