#include "ringlet/comm/store.h"

#include <algorithm>
#include <thread>

#include "ringlet/core/base/error.h"

namespace ringlet::comm {

std::optional<std::string> Store::find_within(const std::string& key, Timeout timeout) {
  const auto deadline = std::chrono::steady_clock::now() + timeout;
  constexpr std::chrono::microseconds kFirst{20}, kLongest{10'000};
  for (auto nap = kFirst;; nap = std::min(2 * nap, kLongest)) {
    if (auto value = find(key, timeout)) return value;
    if (raised() || std::chrono::steady_clock::now() >= deadline) return std::nullopt;
    std::this_thread::sleep_for(nap);
  }
}

std::string Store::get(const std::string& key, Timeout timeout) {
  if (const auto value = find_within(key, timeout)) return *value;
  if (raised()) throw Error(cause());
  fail("[store] nobody set '", key, "' within ", seconds_of(timeout), " s");
}

}  // namespace ringlet::comm
