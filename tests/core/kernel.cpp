#include "ringlet/core/device/kernel.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "ringlet/core/device/observers.h"
#include "ringlet/core/ops/elementwise.h"
#include "ringlet/core/ops/matmul.h"

using namespace ringlet;

namespace {

// Records the kernels that run, and the inner size of products.
struct Listener : KernelObserver, WaitObserver {
  std::vector<std::string> seen;
  std::int64_t inner = 0;

  void before(const char* name, const void*, Device) override {
    seen.push_back(str("before ", name));
  }
  void after(const char* name, const void* args, Device) override {
    seen.push_back(str("after ", name));
    if (seen.back() == "after matmul") inner = static_cast<const MatmulArgs*>(args)->k;
  }
  void wait_begins(const char* what) override { seen.push_back(str("wait for ", what)); }
  void wait_ends(const char* what) override { seen.push_back(str("no more wait for ", what)); }
};

}  // namespace

TEST_CASE("an observer sees every kernel call, with its arguments, while it is set") {
  const Tensor a = ones({2, 3}), b = ones({3, 4});
  Listener listener;
  kernel_observer = &listener;
  const Tensor c = tanh(matmul(a, b));
  kernel_observer = nullptr;
  CHECK(listener.seen ==
        std::vector<std::string>{"before matmul", "after matmul", "before unary", "after unary"});
  CHECK(listener.inner == 3);

  static_cast<void>(tanh(c));
  CHECK(listener.seen.size() == 4);
}

TEST_CASE("an observer sees what a thread waits for, and what it runs meanwhile") {
  const Tensor a = ones({2});
  Listener listener;
  kernel_observer = &listener;
  wait_observer = &listener;
  {
    const ObservedWait wait("data");
    static_cast<void>(tanh(a));
  }
  {
    const ObservedWait to_its_end("devices");
    wait_observer = nullptr;  // it saw the begin, so it must see the end
  }
  { const ObservedWait unseen("data"); }
  kernel_observer = nullptr;
  CHECK(listener.seen == std::vector<std::string>{"wait for data", "before unary", "after unary",
                                                  "no more wait for data", "wait for devices",
                                                  "no more wait for devices"});
}
