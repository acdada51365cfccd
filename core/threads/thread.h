// Threads of the library: all are started here and counted.
#pragma once

#include <atomic>
#include <cstdint>
#include <thread>
#include <utility>

namespace ringlet {

/// Threads started so far by this process and its ancestors, including those that have ended.
inline std::atomic<std::uint64_t> threads_started = 0;

/// std::thread(work), counted.
template <class F>
std::thread start_thread(F&& work) {
  std::thread thread(std::forward<F>(work));
  ++threads_started;
  return thread;
}

}  // namespace ringlet
