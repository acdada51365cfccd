#include "ringlet/core/threads/parallel.h"

#include <pthread.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <map>
#include <memory>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

#include "ringlet/core/base/error.h"
#include "ringlet/core/base/quote.h"
#include "ringlet/core/threads/processors.h"
#include "ringlet/core/threads/thread.h"

namespace ringlet {
namespace {

int default_threads() {
  constexpr int kMost = 4096;
  const char* text = std::getenv("RINGLET_NUM_THREADS");
  if (text && *text) {
    const auto threads = parse_number<int>(text);
    if (!threads || *threads < 1 || *threads > kMost)
      fail_input("RINGLET_NUM_THREADS=", text, ": expected a number from 1 to ", kMost);
    return *threads;
  }
  return usable_processors();
}

std::atomic<int> configured_threads{0};
thread_local bool inside_parallel = false;

// An error number, or 0.
int try_to_pin(pthread_t thread, const std::vector<int>& processors) {
  cpu_set_t set;
  CPU_ZERO(&set);
  for (const int processor : processors)
    if (0 <= processor && processor < CPU_SETSIZE) CPU_SET(processor, &set);
  return pthread_setaffinity_np(thread, sizeof(set), &set);
}

void pin(pthread_t thread, const std::vector<int>& processors) {
  const int error = try_to_pin(thread, processors);
  RINGLET_CHECK(error == 0, "[threads] cannot keep to ", processors.size(),
                " processor(s), the first ", processors[0], ": ", std::strerror(error));
}

std::vector<int> processors_of_this_thread() {
  std::vector<int> processors;
  cpu_set_t set;
  if (pthread_getaffinity_np(pthread_self(), sizeof(set), &set) != 0) return processors;
  for (int processor = 0; processor < CPU_SETSIZE; ++processor)
    if (CPU_ISSET(processor, &set)) processors.push_back(processor);
  return processors;
}

// One job at a time: workers wait for `epoch_`, take pieces from `next_` and decrement `busy_`.
class ThreadPool {
 public:
  explicit ThreadPool(int threads) {
    try {
      for (int i = 1; i < threads; ++i) workers_.push_back(start_thread([this] { work(); }));
    } catch (const std::system_error& error) {
      stop();
      fail("[threads] only ", workers_.size() + 1, " of ", threads,
           " start: ", error.code().message());
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

  void keep_to(const std::vector<int>& processors) {
    for (std::thread& worker : workers_) pin(worker.native_handle(), processors);
  }

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

// A forked child has none of its parent's workers, so pools belong to a process id. The child
// leaves the parent's pools alone: joining them would block forever.
struct Pools {
  pid_t process = getpid();
  std::map<int, std::unique_ptr<ThreadPool>> by_device;
  std::map<int, std::vector<int>> processors;  // by device, if set
};

std::mutex pools_mutex;

Pools& pools_of_process() {
  static auto* pools = new std::unique_ptr<Pools>(new Pools);
  static const auto at_exit = [] {
    return std::atexit([] {
      if ((*pools)->process == getpid()) pools->reset();
    });
  }();
  static_cast<void>(at_exit);
  if ((*pools)->process != getpid()) {
    static_cast<void>(pools->release());
    pools->reset(new Pools);
  }
  return **pools;
}

ThreadPool& pool(int device) {
  const std::lock_guard lock(pools_mutex);
  Pools& pools = pools_of_process();
  auto& slot = pools.by_device[device];
  if (!slot) {
    auto made = std::make_unique<ThreadPool>(threads_per_device());
    if (const auto found = pools.processors.find(device); found != pools.processors.end())
      made->keep_to(found->second);
    slot = std::move(made);
  }
  return *slot;
}

}  // namespace

void set_processors(Device device, std::vector<int> processors) {
  RINGLET_CHECK(!processors.empty(), "[threads] ", device, " has no processors");
  const std::lock_guard lock(pools_mutex);
  Pools& pools = pools_of_process();
  if (const auto found = pools.by_device.find(device.index); found != pools.by_device.end())
    found->second->keep_to(processors);
  pools.processors[device.index] = std::move(processors);
}

void keep_to(Device device) {
  const std::lock_guard lock(pools_mutex);
  const auto& chosen = pools_of_process().processors;
  if (const auto found = chosen.find(device.index); found != chosen.end())
    pin(pthread_self(), found->second);
}

KeepTo::KeepTo(Device device) {
  {
    const std::lock_guard lock(pools_mutex);
    if (!pools_of_process().processors.contains(device.index)) return;
  }
  before_ = processors_of_this_thread();
  keep_to(device);
}

// If the former processors are no longer allowed, the thread stays where it is.
KeepTo::~KeepTo() {
  if (!before_.empty()) static_cast<void>(try_to_pin(pthread_self(), before_));
}

void set_threads_per_device(int threads) { configured_threads = threads; }

int threads_per_device() {
  if (const int configured = configured_threads; configured > 0) return configured;
  static const int fallback = default_threads();
  return fallback;
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
