// Threads of the library: all are started here and counted.
#pragma once

#include <atomic>
#include <cstdint>
#include <system_error>
#include <thread>
#include <utility>

namespace ringlet {

/// Threads started so far by this process and its ancestors, including those that have ended.
inline std::atomic<std::uint64_t> threads_started = 0;

/// std::thread(work), counted. std::system_error: "cannot start a thread: " and the reason.
template <class F>
std::thread start_thread(F&& work) {
  try {
    std::thread thread(std::forward<F>(work));
    ++threads_started;
    return thread;
  } catch (const std::system_error& error) {
    throw std::system_error(error.code(), "cannot start a thread");
  }
}

}  // namespace ringlet
