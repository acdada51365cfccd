#include "ringlet/bench/profile.h"

#include <doctest/doctest.h>

#include <optional>
#include <thread>

#include "../delayed_device.h"
#include "ringlet/bench/floors.h"
#include "ringlet/core/device/backend.h"
#include "ringlet/core/device/kernel.h"
#include "ringlet/core/ops/embedding.h"
#include "ringlet/core/ops/layer_norm.h"
#include "ringlet/core/ops/matmul.h"
#include "ringlet/core/ops/optimizer.h"
#include "ringlet/core/ops/random.h"

using namespace ringlet;
using namespace ringlet::bench;

TEST_CASE("a step is timed by its device's clock; an asynchronous one is weighed before") {
  const auto profile = timed_profile(default_device());
  const Tensor table = normal({10, 8}), a = normal({6, 8}), b = normal({8, 8});
  const Tensor ids = tensor(std::vector<std::int32_t>{3, 3, 3, 7}, {4});
  const Tensor elsewhere = zeros({6, 8}, DType::f32, Device{DeviceType::cpu, 3});
  std::vector<bool> order;
  for (int step = 0; step < 2; ++step)
    profile->run([&](bool again) {
      order.push_back(again);
      static_cast<void>(matmul(a, b));
      static_cast<void>(matmul(a, b));
      static_cast<void>(embedding(table, ids));
      static_cast<void>(elsewhere.clone());  // e.g. by the loader
      std::thread([&] { static_cast<void>(b.clone()); }).join();
    });
  if (default_device().type == DeviceType::cpu)
    CHECK(order == std::vector<bool>{false, false});
  else
    CHECK(order == std::vector<bool>{false, true, false, true});
  const StepTimes times = profile->per_step();
  CHECK(times.kernels.size() == 2);
  const KernelSum& product = times.kernels.at("matmul NN Tx8x8");
  CHECK(product.calls == 2);
  CHECK(product.ms > 0);
  CHECK(product.floor_ms > 0);
  CHECK(times.kernels.at("embedding").calls == 1);
  CHECK(times.between_ms >= 0);
}

TEST_CASE("a layer's gradients must move operands, products and sums, each once") {
  MatmulArgs args{};
  float sums[8] = {};
  args.batch = 1;
  args.m = 8;
  args.n = 4;
  args.k = 16;
  args.trans_a = true;
  args.dtype = args.a_dtype = args.b_dtype = DType::bf16;
  args.out_dtype = DType::f32;
  args.a_stride = 1;
  const Floor alone = floor_of("matmul", &args, Device{});
  CHECK(alone.label == "matmul TN 8x4xT");
  CHECK(alone.flops == 2 * 8 * 4 * 16);
  CHECK(alone.bytes == 2 * (8 * 16 + 4 * 16) + 4 * 8 * 4);
  args.a_sums = sums;
  const Floor both = floor_of("matmul", &args, Device{});
  CHECK(both.label == "matmul TN 8x4xT, sums");
  CHECK(both.bytes == alone.bytes + 4 * 8);
  args.a_sums_beta = 1;
  CHECK(floor_of("matmul", &args, Device{}).bytes == alone.bytes + 2 * 4 * 8);
}

TEST_CASE("a GPU reads a parameter that it keeps rounded, a CPU rounds it anew") {
  MatmulArgs args{};
  args.batch = 1;
  args.m = 2;
  args.n = 4;
  args.k = 16;
  args.dtype = args.a_dtype = args.out_dtype = DType::bf16;
  args.b_dtype = DType::f32;
  const Tensor weight = zeros({1});
  const Device gpu{DeviceType::cuda, 0};
  const double others = 2 * (2 * 16 + 2 * 4);
  CHECK(floor_of("matmul", &args, gpu).bytes == others + 4 * 4 * 16);
  args.round_b = weight.storage().get();
  CHECK(floor_of("matmul", &args, gpu).bytes == others + 2 * 4 * 16);
  CHECK(floor_of("matmul", &args, Device{}).bytes == others + 4 * 4 * 16);
}

TEST_CASE(
    "an update that rounds what it writes moves two bytes more for each element of a segment") {
  const StepSegment segments[] = {{0, 10}, {90, 200}};
  AdamWArgs adamw{};
  SGDArgs sgd{};
  adamw.n = sgd.n = 100;
  adamw.segments = sgd.segments = {segments, 2};
  CHECK(floor_of("adamw", &adamw, Device{}).bytes == 7 * 4 * 20);
  CHECK(floor_of("sgd", &sgd, Device{}).bytes == 3 * 4 * 20);
  float rounded[50];
  adamw.rounded = sgd.rounded = rounded;
  CHECK(floor_of("adamw", &adamw, Device{}).bytes == (7 * 4 + 2) * 20);
  CHECK(floor_of("sgd", &sgd, Device{}).bytes == (3 * 4 + 2) * 20);
}

TEST_CASE("backwards of a LayerNorm are told apart by what lies around it") {
  float values[1] = {};
  LayerNormBackwardArgs args{};
  args.grad_residual = values;
  const auto label = [&] { return floor_of("layer_norm_backward", &args, Device{}).label; };
  CHECK(label() == "residual_dropout_layer_norm_backward");
  args.output_dropout.threshold = 1;
  CHECK(label() == "layer_norm_dropout_backward");  // the embeddings'
  args.output_dropout.threshold = 0;
  args.mean = values;
  CHECK(label() == "layer_norm_backward");
}

TEST_CASE("the bytes that an embedding must move depend on the rows that its ids name") {
  struct Seen : KernelObserver {
    void before(const char*, const void*, Device) override {}
    void after(const char* name, const void* args, Device device) override {
      floors.push_back(floor_of(name, args, device));
    }
    std::vector<Floor> floors;
  } seen;
  const Tensor table = normal({10, 8});
  const auto look_up = [&](const std::vector<std::int32_t>& ids) {
    const Tensor places = tensor(ids, {4});
    kernel_observer = &seen;
    static_cast<void>(embedding(table, places));
    kernel_observer = nullptr;
  };
  look_up({3, 3, 3, 7});
  look_up({3, 4, 5, 7});
  REQUIRE(seen.floors.size() == 2);
  CHECK(seen.floors[0].bytes == 4 * (4 * 8 + 2 * 8));
  CHECK(seen.floors[1].bytes == 4 * (4 * 8 + 4 * 8));
}

TEST_CASE("a step that is not the same the second time is an error") {
  std::optional<DelayedDevice> delayed;
  if (!has_backend(DeviceType::cuda)) delayed.emplace();
  const Device device{DeviceType::cuda, 0};
  const auto profile = timed_profile(device);
  const Tensor a = normal({4, 4}, 0, 1, DType::f32, device);
  CHECK_THROWS_WITH_AS(profile->run([&](bool again) {
    for (int i = 0; i < 1 + again; ++i) static_cast<void>(matmul(a, a));
  }),
                       doctest::Contains("another number of kernel calls"), Error);
}
