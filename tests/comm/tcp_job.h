// A TCP store's server and its clients, for tests.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <thread>

#include "ringlet/comm/stores/tcp_store.h"
#include "ringlet/tests/message.h"

namespace ringlet::comm {

using Clock = std::chrono::steady_clock;

/// A server and the parameters of its clients.
struct Job {
  Token token = Token::random();
  std::unique_ptr<TcpStoreServer> server = serve_tcp_store({.token = token});

  TcpStoreOptions options(const std::string& name) const {
    return {
        .port = server->port(), .token = token, .name = name, .timeout = std::chrono::seconds(10)};
  }
};

/// Waits until the alarm is raised; false after `limit`, which only a failing test reaches.
inline bool raised_within(const Store& store, Clock::duration limit = std::chrono::seconds(60)) {
  const auto end = Clock::now() + limit;
  while (!store.raised() && Clock::now() < end)
    std::this_thread::sleep_for(std::chrono::microseconds(100));
  return store.raised();
}

}  // namespace ringlet::comm
