// The transport nccl over real NCCL, with one rank that sends to itself. Several ranks on one GPU:
// tests/cli/nccl.cpp.
#include <doctest/doctest.h>

#include "ringlet/comm/engine.h"
#include "ringlet/comm/membership.h"
#include "ringlet/core/base/error.h"
#include "ringlet/core/device/backend.h"
#include "ringlet/core/device/graph.h"
#include "ringlet/core/ops/elementwise.h"
#include "ringlet/tests/device.h"
#include "ringlet/tests/emulated/emulated.h"

using namespace ringlet;
using namespace ringlet::comm;

namespace {

bool has_nccl() {
  if (emulated::configure) {
    MESSAGE("skipped: NCCL itself needs a GPU that is not emulated");
    return false;
  }
  if (default_device().type == DeviceType::cuda && !has_fake_nccl) return true;
  MESSAGE("skipped: needs a GPU and --device cuda");
  return false;
}

struct OneRank {
  Call next(Op op, std::int64_t count) {
    return {.sequence = ++sequence, .count = count, .op = op, .dtype = DType::f32};
  }
  /// Copies the first half of x to the second; with `adds`, adds it.
  void exchange(const Tensor& x, bool adds) {
    Tensor halves[] = {x.slice(0, x.numel() / 2), x.slice(x.numel() / 2, x.numel())};
    const std::size_t half = halves[0].nbytes();
    const Transmission first{0, 0, half}, second{0, half, half};
    nccl->begin(next(Op::all_gather, x.numel()), x);
    const Views views = nccl->exchange({&first, 1}, {&second, 1}, !adds);
    if (adds) {
      auto received =
          std::make_shared<Storage>(const_cast<std::byte*>(views[0]), half, x.device(), [] {});
      halves[1].copy_(add(halves[1], Tensor(received, 0, halves[0].shape(), DType::f32)));
    }
    nccl->release();
    nccl->finish();
  }

  std::uint64_t sequence = 0;
  Membership member{make_memory_store(), 0, 1, std::chrono::seconds(60), "one"};
  std::unique_ptr<Transport> host = make_thread_transport(member);
  std::unique_ptr<Transport> nccl = make_nccl_transport(member, *host, TransportKind::thread);
};

}  // namespace

TEST_CASE("nccl with one rank: what it sends itself arrives, and its own sum is its own") {
  if (!has_nccl()) return;
  OneRank rank;
  Tensor x = tensor({1.0f, 2.0f, 3.0f, 4.0f});
  rank.exchange(x, false);
  CHECK(x.to_vector() == std::vector{1.0f, 2.0f, 1.0f, 2.0f});
  rank.exchange(x, true);
  CHECK(x.to_vector() == std::vector{1.0f, 2.0f, 2.0f, 4.0f});
  rank.nccl->engine()->execute({.call = rank.next(Op::all_reduce, 4), .buffer = x});
  CHECK(x.to_vector() == std::vector{1.0f, 2.0f, 2.0f, 4.0f});
  CHECK_FALSE(rank.member.store->raised());
}

TEST_CASE("nccl with one rank in a graph: each replay moves the bytes again") {
  if (!has_nccl()) return;
  if (const std::string why = why_no_graphs(default_device()); !why.empty()) {
    MESSAGE("skipped: " << why);
    return;
  }
  OneRank rank;
  Tensor x = tensor({1.0f, 2.0f, 0.0f, 0.0f});
  rank.exchange(x, false);  // creates the communicator and the slots in advance
  rank.exchange(x, true);
  const auto graph = capture(default_device(), [&] {
    rank.exchange(x, true);
    rank.nccl->engine()->execute({.call = rank.next(Op::all_reduce, 4), .buffer = x});
  });
  CHECK(x.to_vector() == std::vector{1.0f, 2.0f, 2.0f, 4.0f});
  graph->replay();
  graph->replay();
  CHECK(x.to_vector() == std::vector{1.0f, 2.0f, 4.0f, 8.0f});
  rank.exchange(x, false);  // also uncaptured between replays
  graph->replay();
  CHECK(x.to_vector() == std::vector{1.0f, 2.0f, 2.0f, 4.0f});
  CHECK_FALSE(rank.member.store->raised());
}
