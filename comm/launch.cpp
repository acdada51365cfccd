#include "ringlet/comm/launch.h"

#include <mutex>
#include <system_error>
#include <thread>

#include "ringlet/comm/launch_processes.h"
#include "ringlet/core/error.h"
#include "ringlet/core/thread.h"

namespace ringlet::comm {
namespace {

// The error of the first rank that failed.
class FirstFailure {
 public:
  explicit FirstFailure(std::shared_ptr<Alarm> alarm) : alarm_(std::move(alarm)) {}

  /// Called in a rank's exception handler.
  void take(int rank, const char* what, bool is_input) {
    const std::lock_guard lock(mutex_);
    if (failed_) return;
    failed_ = true;
    is_input_ = is_input;
    // An alarm raised earlier is the cause of this rank's end, too.
    alarm_->raise(str("rank ", rank, ": ", what));
    message_ = fuller(alarm_->cause(), what);
  }
  void rethrow() const {
    if (failed_ && is_input_) throw InputError(message_);
    if (failed_) throw Error(message_);
  }

 private:
  std::shared_ptr<Alarm> alarm_;
  std::mutex mutex_;
  bool failed_ = false;
  bool is_input_ = false;
  std::string message_;
};

void launch_threads(const std::function<void(const Group&)>& rank_main, int n,
                    const GroupOptions& options) {
  const std::shared_ptr<Store> store = make_memory_store();
  const std::shared_ptr<Alarm> alarm = make_local_alarm();
  FirstFailure failure(alarm);
  std::vector<std::thread> ranks;
  const auto run = [&](int rank) {
    try {
      rank_main(Group(store, alarm, rank, n, options));
    } catch (const InputError& error) {
      failure.take(rank, error.what(), true);
    } catch (const std::exception& error) {
      failure.take(rank, error.what(), false);
    } catch (...) {
      failure.take(rank, "an exception that is no std::exception", false);
    }
  };
  try {
    for (int rank = 0; rank < n; ++rank) ranks.push_back(start_thread([&run, rank] { run(rank); }));
  } catch (const std::system_error& error) {  // started ranks must not wait for missing ones
    failure.take(static_cast<int>(ranks.size()), error.what(), false);
  }
  for (std::thread& rank : ranks) rank.join();
  failure.rethrow();
}

}  // namespace

void launch(const std::function<void(const Group&)>& rank_main, int n, LaunchOptions options) {
  RINGLET_CHECK(n > 0, "[launch] of ", n, " ranks");
  if (options.ranks == Ranks::threads) return launch_threads(rank_main, n, options.group);
  launch_processes(rank_main, n, options.group, options.signal);
}

}  // namespace ringlet::comm
