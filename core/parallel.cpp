#include "ringlet/core/parallel.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <exception>
#include <map>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

#include "ringlet/core/error.h"

namespace ringlet {
namespace {

int default_threads() {
  if (const char* text = std::getenv("RINGLET_NUM_THREADS"))
    if (const int threads = std::atoi(text); threads > 0) return threads;
  cpu_set_t set;
  CPU_ZERO(&set);
  return sched_getaffinity(0, sizeof(set), &set) == 0 ? std::max(1, CPU_COUNT(&set)) : 1;
}

std::atomic<int> configured_threads{0};
thread_local bool inside_parallel = false;

// One job at a time: workers wait on `epoch_`, take pieces from `next_`, and count down `busy_`.
class ThreadPool {
 public:
  explicit ThreadPool(int threads) {
    try {
      for (int i = 1; i < threads; ++i) workers_.emplace_back([this] { work(); });
    } catch (const std::system_error& error) {
      stop();
      fail("[threads] only ", workers_.size() + 1, " of ", threads, " start: ", error.what());
    }
  }

  ~ThreadPool() { stop(); }

  void run(std::int64_t n, std::int64_t piece, ParallelBody body, void* context) {
    const std::lock_guard one_job(run_mutex_);
    n_ = n, piece_ = piece, body_ = body, context_ = context;
    error_ = nullptr;
    next_.store(0, std::memory_order_relaxed);
    busy_.store(static_cast<int>(workers_.size()), std::memory_order_relaxed);
    start_epoch();
    take_pieces();
    for (int busy; (busy = busy_.load(std::memory_order_acquire)) != 0;) busy_.wait(busy);
    if (error_) std::rethrow_exception(error_);
  }

  int threads() const { return static_cast<int>(workers_.size()) + 1; }

 private:
  void stop() {
    stop_ = true;
    start_epoch();
    for (std::thread& worker : workers_) worker.join();
  }

  void start_epoch() {
    epoch_.fetch_add(1, std::memory_order_release);
    epoch_.notify_all();
  }

  void work() {
    for (std::uint32_t seen = 0;;) {
      epoch_.wait(seen, std::memory_order_acquire);
      seen = epoch_.load(std::memory_order_acquire);
      if (stop_) return;
      take_pieces();
      if (busy_.fetch_sub(1, std::memory_order_acq_rel) == 1) busy_.notify_all();
    }
  }

  void take_pieces() {
    inside_parallel = true;
    for (;;) {
      const std::int64_t begin = next_.fetch_add(piece_, std::memory_order_relaxed);
      if (begin >= n_) break;
      try {
        body_(context_, begin, std::min(begin + piece_, n_));
      } catch (...) {
        const std::lock_guard lock(error_mutex_);
        if (!error_) error_ = std::current_exception();
        next_.store(n_, std::memory_order_relaxed);
      }
    }
    inside_parallel = false;
  }

  std::vector<std::thread> workers_;
  std::mutex run_mutex_;
  std::mutex error_mutex_;
  std::exception_ptr error_;
  std::int64_t n_ = 0;
  std::int64_t piece_ = 0;
  ParallelBody body_ = nullptr;
  void* context_ = nullptr;
  std::atomic<std::int64_t> next_{0};
  std::atomic<int> busy_{0};
  std::atomic<std::uint32_t> epoch_{0};
  std::atomic<bool> stop_{false};
};

// A forked child has none of its parent's workers, so pools belong to a process id; the parent's
// are left alone there (joining them would wait for ever).
struct Pools {
  pid_t process = getpid();
  std::map<int, std::unique_ptr<ThreadPool>> by_device;
};

ThreadPool& pool(int device) {
  static std::mutex mutex;
  static auto* pools = new std::unique_ptr<Pools>(new Pools);
  static const auto at_exit = [] {
    return std::atexit([] {
      if ((*pools)->process == getpid()) pools->reset();
    });
  }();
  static_cast<void>(at_exit);
  const std::lock_guard lock(mutex);
  if ((*pools)->process != getpid()) {
    static_cast<void>(pools->release());
    pools->reset(new Pools);
  }
  auto& slot = (*pools)->by_device[device];
  if (!slot) slot = std::make_unique<ThreadPool>(threads_per_device());
  return *slot;
}

}  // namespace

void set_threads_per_device(int threads) { configured_threads = threads; }

int threads_per_device() {
  static const int fallback = default_threads();
  const int configured = configured_threads;
  return configured > 0 ? configured : fallback;
}

void parallel_for(Device device, std::int64_t n, std::int64_t grain, ParallelBody body,
                  void* context) {
  if (n <= 0) return;
  grain = std::max<std::int64_t>(grain, 1);
  if (inside_parallel || n <= grain || threads_per_device() == 1) return body(context, 0, n);
  ThreadPool& workers = pool(device.index);
  const std::int64_t pieces = std::min<std::int64_t>(n / grain, 4 * workers.threads());
  if (pieces <= 1) return body(context, 0, n);
  workers.run(n, (n + pieces - 1) / pieces, body, context);
}

}  // namespace ringlet
