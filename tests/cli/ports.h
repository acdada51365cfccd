// Ports for jobs with processes that take one as an argument.
#pragma once

#include <unistd.h>

#include <string>

#include "ringlet/comm/stores/socket.h"
#include "ringlet/core/base/error.h"

/// A port without a listener on this host, like the next one. It lies below the ephemeral range, so
/// that a connection of another test does not take it. Twenty pairs lie between the first ones of
/// tests with successive process ids.
inline std::string free_port() {
  static int port = 21'000 + 40 * (getpid() % 250);
  for (int tries = 0; tries < 100; ++tries) {
    port = port < 31'000 ? port + 2 : 21'000;
    try {
      const auto first = ringlet::comm::listen_at("", port);
      const auto second = ringlet::comm::listen_at("", port + 1);
      return std::to_string(port);
    } catch (const ringlet::InputError&) {  // used by another program
    }
  }
  throw ringlet::Error("none of a hundred pairs of ports is free");
}
