// Sends, receives and barriers.
#include <chrono>
#include <thread>

#include "backend.h"
#include "ringlet/core/base/error.h"

namespace ringlet::pytorch {
namespace {

using c10d::OpType;
using Clock = std::chrono::steady_clock;

/// The first peer that sends; throws at the group's timeout, its alarm or the backend's end.
int wait_for_sender(const comm::Group& group, int tag, const std::atomic<bool>& ends) {
  const auto start = Clock::now();
  constexpr std::chrono::microseconds kFirstNap{20}, kLongestNap{2000};
  for (auto nap = kFirstNap;; nap = std::min(2 * nap, kLongestNap)) {
    if (const auto peer = group.sender(tag)) return *peer;
    if (group.store().raised()) fail(group.store().cause());
    RINGLET_CHECK(!ends, "[recv] from any rank, tag ", tag, ": the process group was destroyed");
    RINGLET_CHECK(Clock::now() - start < group.options().timeout, "[recv] rank ", group.rank(),
                  " waited ", comm::seconds_of(group.options().timeout),
                  " s for a send of any rank, tag ", tag);
    std::this_thread::sleep_for(nap);
  }
}

}  // namespace

WorkPointer Backend::send(Tensors& tensors, int peer, int tag) {
  return launch({OpType::SEND, "ringlet:send"}, tensors, {}, [&](After&) {
    return group_.send(as_ringlet(only("send", tensors).detach().contiguous()), peer, tag);
  });
}

WorkPointer Backend::recv(Tensors& tensors, int peer, int tag) {
  const WorkPointer work =
      launch({OpType::RECV, "ringlet:recv"}, tensors, tensors, [&](After& after) {
        return group_.recv(as_ringlet(written(only("recv", tensors), after)), peer, tag);
      });
  static_cast<Work&>(*work).set_source(peer);
  return work;
}

// One after another: two receives must not take the same send.
WorkPointer Backend::recvAnysource(Tensors& tensors, int tag) {
  TORCH_CHECK(group_.transport(Device{}) != comm::TransportKind::gloo,
              "[ringlet] a receive from any source needs ranks on one host");
  ++calls_;
  only("recv", tensors);
  const auto work = c10::make_intrusive<Work>(
      CallName{OpType::RECVANYSOURCE, "ringlet:recvAnySource"}, rank_, tensors, tensors, where());
  any_source_ = std::thread([=, this, before = std::move(any_source_)]() mutable {
    if (before.joinable()) before.join();
    try {
      const int peer = wait_for_sender(group_, tag, ends_);
      work->set_source(peer);
      After after;
      const comm::Work received = group_.recv(as_ringlet(written(tensors[0], after)), peer, tag);
      received.wait();
      work->complete_after(received, std::move(after));
    } catch (const std::exception&) {
      work->complete(std::current_exception());
    }
  });
  return work;
}

WorkPointer Backend::barrier(const BarrierOptions& options) {
  return launch({OpType::BARRIER, "ringlet:barrier", options}, {}, {},
                [&](After&) { return group_.start_barrier(); });
}

// Over the store, so that the group still works when a rank has not come.
void Backend::monitoredBarrier(const BarrierOptions& options, bool wait_all_ranks) {
  const auto timeout = options.timeout == c10d::kUnsetTimeout ? options_->timeout : options.timeout;
  const auto deadline = Clock::now() + timeout;
  const auto rest = [&] {
    return std::max(Timeout(0), std::chrono::duration_cast<Timeout>(deadline - Clock::now()));
  };
  const std::string name = "monitored barrier " + std::to_string(++barriers_);
  const std::string end = name + ": end";
  if (rank_ > 0) {
    store_->set(name + ": rank " + std::to_string(rank_), "here");
    const std::string failed = store_->wait(end, rest()) ? store_->get(end, rest()) : "no answer";
    TORCH_CHECK(failed.empty(), "Rank ", rank_,
                " successfully reached monitoredBarrier, but received errors while waiting for "
                "send/recv from rank 0: ",
                failed, where());
    return;
  }
  std::string missing;
  int count = 0;
  for (int rank = 1; rank < size_ && (count == 0 || wait_all_ranks); ++rank)
    if (!store_->wait(name + ": rank " + std::to_string(rank), rest()))
      missing += (count++ == 0 ? "" : ", ") + std::to_string(rank);
  std::string failed;
  if (count > 0)
    failed = (count == 1 ? "Rank " : "Ranks ") + missing + " failed to pass monitoredBarrier in " +
             std::to_string(timeout.count()) + " ms";
  if (timeout.count() == 0) failed = "Rank 0 timed out in monitoredBarrier after 0 ms";
  store_->set(end, failed);
  TORCH_CHECK(failed.empty(), "[Rank 0]: ", failed, where());
}

}  // namespace ringlet::pytorch
