// The store of ranks that are threads of one process.
#include <condition_variable>
#include <map>
#include <mutex>

#include "ringlet/comm/store.h"
#include "ringlet/core/error.h"

namespace ringlet::comm {
namespace {

class MemoryStore final : public Store {
 public:
  void set(const std::string& key, const std::string& value) override {
    const std::lock_guard lock(mutex_);
    values_[key] = value;
    changed_.notify_all();
  }

  std::string get(const std::string& key, Timeout timeout) override {
    std::unique_lock lock(mutex_);
    const auto there = [&] { return values_.contains(key); };
    RINGLET_CHECK(changed_.wait_for(lock, timeout, there), "[store] nobody set '", key, "' within ",
                  std::chrono::duration<double>(timeout).count(), " s");
    return values_[key];
  }

  std::int64_t add(const std::string& key, std::int64_t amount) override {
    const std::lock_guard lock(mutex_);
    return counters_[key] += amount;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::string, std::string> values_;
  std::map<std::string, std::int64_t> counters_;
};

}  // namespace

std::shared_ptr<Store> make_memory_store() { return std::make_shared<MemoryStore>(); }

}  // namespace ringlet::comm
