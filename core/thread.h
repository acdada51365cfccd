// Threads of the library: each is started here, so that their number is known.
#pragma once

#include <atomic>
#include <cstdint>
#include <thread>
#include <utility>

namespace ringlet {

/// Started by this process and its ancestors so far, those that have ended included.
inline std::atomic<std::uint64_t> threads_started = 0;

/// std::thread(work), counted.
template <class F>
std::thread start_thread(F&& work) {
  std::thread thread(std::forward<F>(work));
  ++threads_started;
  return thread;
}

}  // namespace ringlet
