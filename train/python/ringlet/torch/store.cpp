#include "store.h"

#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include <algorithm>
#include <chrono>
#include <thread>

#include "ringlet/core/base/error.h"

namespace ringlet::pytorch {
namespace {

using Clock = std::chrono::steady_clock;
constexpr auto kLookEvery = std::chrono::milliseconds(250);
constexpr const char* kAlarm = "alarm";

std::string host_of(const c10::intrusive_ptr<c10d::Store>& store) {
  c10::intrusive_ptr<c10d::Store> base = store;
  if (const auto prefixed = c10::dynamic_intrusive_pointer_cast<c10d::PrefixStore>(store))
    base = prefixed->getUnderlyingNonPrefixStore();
  const auto tcp = c10::dynamic_intrusive_pointer_cast<c10d::TCPStore>(base);
  return tcp ? tcp->getHost() : "127.0.0.1";
}

}  // namespace

Store::Store(const c10::intrusive_ptr<c10d::Store>& store)
    : store_(store->clone()), host_(host_of(store)) {}

void Store::set(const std::string& key, const std::string& value) { store_->set(key, value); }

std::int64_t Store::add(const std::string& key, std::int64_t amount) {
  return store_->add("+" + key, amount);  // separate from the values of the same key
}

std::string Store::get(const std::string& key, Timeout timeout) {
  RINGLET_CHECK(wait(key, timeout), "[store] no rank set '", key, "' within ",
                comm::seconds_of(timeout), " s");
  return store_->get_to_str(key);
}

// Not the store's own wait, which blocks a connection's other callers.
bool Store::wait(const std::string& key, Timeout timeout) const {
  const auto deadline = Clock::now() + timeout;
  constexpr std::chrono::microseconds kFirstNap{50}, kLongestNap{5000};
  for (auto nap = kFirstNap; !store_->check({key}); nap = std::min(2 * nap, kLongestNap)) {
    if (Clock::now() >= deadline) return false;
    std::this_thread::sleep_for(nap);
  }
  return true;
}

void Store::raise(const std::string& cause) {
  const std::lock_guard lock(mutex_);
  if (raised_) return;
  cause_ = cause;
  try {
    if (store_->add("+alarm", 1) == 1)
      store_->set(kAlarm, cause);
    else if (wait(kAlarm, std::chrono::seconds(1)))
      cause_ = store_->get_to_str(kAlarm);
  } catch (const std::exception&) {  // the store has gone: only this rank learns the cause
  }
  raised_ = true;
}

bool Store::raised() const {
  if (raised_) return true;
  const std::int64_t now = Clock::now().time_since_epoch() / std::chrono::nanoseconds(1);
  if (now < next_look_.load(std::memory_order_relaxed)) return false;
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock || raised_) return raised_;
  try {
    if (store_->check({kAlarm})) {
      cause_ = store_->get_to_str(kAlarm);
      raised_ = true;
    }
    next_look_ = now + kLookEvery / std::chrono::nanoseconds(1);
  } catch (const std::exception&) {
    next_look_ = std::numeric_limits<std::int64_t>::max();
  }
  return raised_;
}

std::string Store::cause() const {
  if (!raised()) return "";
  const std::lock_guard lock(mutex_);
  return cause_;
}

}  // namespace ringlet::pytorch
