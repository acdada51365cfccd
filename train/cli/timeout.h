// --timeout, the same for every command with ranks that wait for each other.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>

#include "ringlet/comm/environment.h"
#include "ringlet/core/base/error.h"
#include "ringlet/train/cli/number_in.h"

namespace ringlet::cli {

/// Seconds; `timeout` stays 0 where none are given.
inline void add_timeout(CLI::App& command, double& timeout) {
  command
      .add_option("--timeout", timeout,
                  "Seconds that a rank waits for the others in a collective (300)")
      ->check(number_in(0.1, 86400.0));
}

/// With GroupOptions' own where none were given.
inline comm::GroupOptions with_timeout(comm::GroupOptions group, double timeout) {
  if (timeout > 0) group.timeout = comm::Timeout(static_cast<std::int64_t>(timeout * 1000));
  return group;
}

/// For a command that starts no ranks itself. InputError if a timeout was given and there are no
/// peers to wait for.
inline comm::GroupOptions launched_options(double timeout) {
  if (timeout > 0 && !comm::Environment::read().launched)
    fail_input("--timeout ", timeout, ": no launcher started this: there is no rank to wait for");
  return with_timeout({}, timeout);
}

}  // namespace ringlet::cli
