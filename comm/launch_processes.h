// The parts of launch(): its state, and ranks as forked processes.
#pragma once

#include <functional>
#include <memory>

#include "ringlet/comm/group.h"

namespace ringlet::comm {

/// The ranks of one launch(), and the first failure among them.
struct Launch {
  const std::function<void(const Group&)>& rank_main;
  int size;
  const GroupOptions& options;
  std::shared_ptr<Store> store = make_memory_store();

  /// Runs a rank to its end; false after a failure.
  bool run(int rank) const noexcept;
  /// A failure ends the other ranks.
  void record(int rank, const char* what, bool is_input) const noexcept;
  /// Throws the first failure, if there is one.
  void rethrow() const;
};

/// Runs the ranks as children and waits for them. Reports a rank that was killed, and kills the
/// remaining ranks some seconds after the group has failed. A signal that `signal` returns is sent
/// to all of them, once.
void launch_processes(const Launch& launch, const std::function<int()>& signal);

}  // namespace ringlet::comm
