// The store of ranks that are threads of one process or forked from it: shared memory, allocated as
// it is used. It is freed when the last of them ends, for any reason.
#include <pthread.h>
#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <functional>
#include <new>
#include <span>
#include <thread>

#include "ringlet/comm/store.h"
#include "ringlet/core/base/error.h"

namespace ringlet::comm {
namespace {

using Clock = std::chrono::steady_clock;

// Contiguous entries: lengths, key, value. Each bucket chains those of its keys, the latest first:
// that of a key counts. Pages cost memory once used.
struct Pages {
  static constexpr std::size_t kBytes = std::size_t{64} << 20;
  static constexpr std::size_t kBuckets = std::size_t{1} << 14;
  enum : std::uint32_t { quiet, writing, raised };
  std::atomic<std::uint32_t> alarm{quiet};  // without the mutex: a stopped rank may hold that
  char cause[4000 + 1] = {};                // written once, between `writing` and `raised`
  pthread_mutex_t mutex;
  std::size_t used = 0;
  std::uint32_t heads[kBuckets] = {};  // 1 + the offset of an entry; 0: none
  char* bytes() { return reinterpret_cast<char*>(this + 1); }
};

struct Entry {
  std::uint32_t next;  // as in `heads`
  std::uint32_t key;
  std::uint32_t value;
};

// Zeroed, and shared with children that this process forks later.
std::shared_ptr<Pages> share_pages() {
  void* shared = mmap(nullptr, Pages::kBytes, PROT_READ | PROT_WRITE,
                      MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  RINGLET_CHECK(shared != MAP_FAILED, "[store] no shared memory: ", std::strerror(errno));
  return {new (shared) Pages, [](Pages* pages) { munmap(pages, Pages::kBytes); }};
}

// A rank holds the mutex for microseconds, unless it is stopped (SIGSTOP) meanwhile.
constexpr std::chrono::seconds kLongestHold{5};

class SharedLock {
 public:
  explicit SharedLock(Pages& pages) : mutex_(pages.mutex) {
    const auto deadline = Clock::now() + kLongestHold;
    int result = 0;
    while ((result = lock_for_a_while()) == ETIMEDOUT) {
      if (pages.alarm.load() == Pages::raised) fail(pages.cause);
      RINGLET_CHECK(Clock::now() < deadline, "[store] in use by another rank for ",
                    seconds_of(kLongestHold), " s: that rank is stopped");
    }
    if (result == EOWNERDEAD) pthread_mutex_consistent(&mutex_);
  }
  ~SharedLock() { pthread_mutex_unlock(&mutex_); }
  SharedLock(const SharedLock&) = delete;
  SharedLock& operator=(const SharedLock&) = delete;

 private:
  int lock_for_a_while() {
    timespec until{};
    clock_gettime(CLOCK_REALTIME, &until);  // the thread sanitizer does not know clocklock
    ++until.tv_sec;
    return pthread_mutex_timedlock(&mutex_, &until);
  }

  pthread_mutex_t& mutex_;
};

class MemoryStore final : public Store {
 public:
  MemoryStore() {
    pthread_mutexattr_t attributes;
    pthread_mutexattr_init(&attributes);
    pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
    pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
    pthread_mutex_init(&pages_->mutex, &attributes);
    pthread_mutexattr_destroy(&attributes);
  }

  // Short values of the same length are overwritten in place, as some change for as long as the job
  // runs. A kill within these few bytes is practically impossible.
  void set(const std::string& key, const std::string& value) override {
    constexpr std::size_t kShort = 20;  // the digits of any number
    const SharedLock lock(*pages_);
    const auto last = find(key);
    if (last.data() && last.size() == value.size() && value.size() <= kShort)
      std::memcpy(last.data(), value.data(), value.size());
    else
      append(key, value);
  }

  std::string get(const std::string& key, Timeout timeout) override {
    const auto deadline = Clock::now() + timeout;
    constexpr std::chrono::microseconds kFirstNap{20}, kLongestNap{1000};
    for (auto nap = kFirstNap;; nap = std::min(2 * nap, kLongestNap)) {
      {
        const SharedLock lock(*pages_);
        if (const auto value = find(key); value.data()) return {value.begin(), value.end()};
      }
      RINGLET_CHECK(Clock::now() < deadline, "[store] nobody set '", key, "' within ",
                    seconds_of(timeout), " s");
      std::this_thread::sleep_for(nap);
    }
  }

  std::int64_t add(const std::string& key, std::int64_t amount) override {
    const SharedLock lock(*pages_);
    const std::string counter = "+" + key;  // separate from the values of the same key
    if (!find(counter).data()) append(counter, std::string(sizeof(amount), '\0'));
    const auto number = find(counter);
    std::int64_t sum;
    std::memcpy(&sum, number.data(), sizeof(sum));
    sum += amount;
    std::memcpy(number.data(), &sum, sizeof(sum));
    return sum;
  }

  void raise(const std::string& cause) override {
    std::uint32_t expected = Pages::quiet;
    if (!pages_->alarm.compare_exchange_strong(expected, Pages::writing)) return;
    cause.copy(pages_->cause, sizeof(pages_->cause) - 1);
    pages_->alarm.store(Pages::raised);
  }

  bool raised() const override { return pages_->alarm.load() != Pages::quiet; }

  std::string cause() const override {
    if (!raised()) return "";
    // The rank that raised it may have been killed while it wrote.
    for (int i = 0; i < 1000 && pages_->alarm.load() != Pages::raised; ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return pages_->alarm.load() == Pages::raised ? pages_->cause : "a rank ended";
  }

 private:
  /// The value of a key; without data if there is none.
  std::span<char> find(const std::string& key) const {
    Entry entry{};
    for (std::uint32_t at = head(key); at > 0; at = entry.next) {
      char* text = pages_->bytes() + at - 1;
      std::memcpy(&entry, text, sizeof(entry));
      text += sizeof(entry);
      if (key.compare(0, key.npos, text, entry.key) == 0) return {text + entry.key, entry.value};
    }
    return {};
  }

  std::uint32_t& head(const std::string& key) const {
    return pages_->heads[std::hash<std::string>()(key) % Pages::kBuckets];
  }

  // A killed writer leaves no partial entry, as the head of its chain is set last.
  void append(const std::string& key, const std::string& value) {
    const Entry entry{head(key), static_cast<std::uint32_t>(key.size()),
                      static_cast<std::uint32_t>(value.size())};
    const std::size_t nbytes = sizeof(entry) + key.size() + value.size();
    RINGLET_CHECK(sizeof(Pages) + pages_->used + nbytes <= Pages::kBytes, "[store] no room for '",
                  key, "'");
    char* to = pages_->bytes() + pages_->used;
    std::memcpy(to, &entry, sizeof(entry));
    std::memcpy(to + sizeof(entry), key.data(), key.size());
    std::memcpy(to + sizeof(entry) + key.size(), value.data(), value.size());
    const auto at = static_cast<std::uint32_t>(pages_->used);
    pages_->used += nbytes;
    std::atomic_ref(head(key)).store(at + 1, std::memory_order_release);
  }

  const std::shared_ptr<Pages> pages_ = share_pages();
};

}  // namespace

std::shared_ptr<Store> make_memory_store() { return std::make_shared<MemoryStore>(); }

}  // namespace ringlet::comm
