#include "ringlet/comm/launch.h"

#include <optional>
#include <system_error>
#include <thread>

#include "ringlet/comm/launch_processes.h"
#include "ringlet/comm/membership.h"
#include "ringlet/core/base/error.h"
#include "ringlet/core/threads/thread.h"

namespace ringlet::comm {
namespace {

/// The store's keys of the first failed rank's message, and of whether its input was to blame.
constexpr const char* kFailure = "failure";
constexpr const char* kBadInput = "bad input";

void launch_threads(const Launch& launch) {
  std::vector<std::thread> ranks;
  try {
    for (int rank = 0; rank < launch.size; ++rank)
      ranks.push_back(start_thread([&launch, rank] { launch.run(rank); }));
  } catch (const std::system_error& error) {  // started ranks must not wait for missing ones
    launch.record(static_cast<int>(ranks.size()), error.what(), false);
  }
  for (std::thread& rank : ranks) rank.join();
}

}  // namespace

bool Launch::run(int rank) const noexcept {
  // Destroyed after the alarm is raised: it waits for transfers that no peer may meet.
  std::optional<Group> group;
  try {
    rank_main(group.emplace(store, rank, size, options));
    return true;
  } catch (const std::exception& error) {
    record(rank, error.what(), dynamic_cast<const InputError*>(&error) != nullptr);
  } catch (...) {
    record(rank, "an exception that is no std::exception", false);
  }
  return false;
}

void Launch::record(int rank, const char* what, bool is_input) const noexcept {
  try {
    // An alarm raised earlier is the cause of this rank's end, too.
    const std::string cause = of_rank(rank, what);
    const bool is_first = store->add(kFailure, 1) == 1;  // before the alarm, by which others fail
    store->raise(cause);
    const std::string first = store->cause();  // perhaps cut
    if (is_input && !first.empty() && cause.starts_with(first)) store->add(kBadInput, 1);
    if (is_first) store->set(kFailure, what);
  } catch (const Error&) {  // the store is full: the cause is enough
    store->raise(of_rank(rank, what));
  }
}

void Launch::rethrow() const {
  if (!store->raised()) return;
  std::string message = store->cause();
  bool is_input = false;
  try {
    is_input = store->add(kBadInput, 0) > 0;
    // The first failed rank's message may go on where the cause ends: with where the rank was.
    if (store->add(kFailure, 0) > 0)
      if (const auto what = store->find(kFailure, {}); what && what->starts_with(message))
        message = *what;
  } catch (const Error&) {  // the store is full
  }
  if (is_input) throw InputError(message);
  throw Error(message);
}

void launch(const std::function<void(const Group&)>& rank_main, int n, LaunchOptions options) {
  RINGLET_CHECK(n > 0, "[launch] of ", n, " ranks");
  const bool threads = options.ranks == Ranks::threads;
  const Launch launch{rank_main, n, options.group};
  threads ? launch_threads(launch) : launch_processes(launch, options.signal);
  launch.rethrow();
}

}  // namespace ringlet::comm
