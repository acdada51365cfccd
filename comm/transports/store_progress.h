// How far each rank of a group has come, for transports without shared memory.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "ringlet/comm/membership.h"
#include "ringlet/core/base/error.h"

namespace ringlet::comm {

/// Each rank's progress, in the group's store. Each rank keeps its own entry up to date while it
/// lives, also while it waits.
class StoreProgress {
 public:
  /// `what` distinguishes several of them in one group.
  StoreProgress(const Membership& membership, std::string what)
      : membership_(membership), what_(std::move(what)) {}

  /// Sets this rank's progress; any thread.
  void enter(const Progress& progress) {
    entered_.store(progress.word(), std::memory_order_relaxed);
  }
  /// Stores it for the peers, if it has changed; one thread.
  void publish() {
    const std::uint64_t now = entered_;
    if (now == published_) return;
    membership_.store->set(key(membership_.rank), std::to_string(now));
    published_ = now;
  }
  /// 0 for a rank that has stored nothing, and for the remaining ones once the store is silent.
  std::vector<Progress> of_all() const {
    std::vector<Progress> all(static_cast<std::size_t>(membership_.size));
    const auto patience = std::chrono::steady_clock::now() + kPatience;
    for (int rank = 0; rank < membership_.size && std::chrono::steady_clock::now() < patience;
         ++rank) {
      Progress& progress = all[static_cast<std::size_t>(rank)];
      if (rank == membership_.rank) {
        progress = Progress::of_word(entered_);
      } else {
        try {
          progress =
              Progress::of_word(std::stoull(membership_.store->get(key(rank), kPatience / 4)));
        } catch (const Error&) {
        }
      }
    }
    return all;
  }
  /// A rank that came this long before a deadline has published it by then.
  Timeout interval() const {
    return std::min(std::chrono::duration_cast<Timeout>(std::chrono::seconds(1)),
                    membership_.timeout / 4);
  }

 private:
  static constexpr Timeout kPatience{1000};
  std::string key(int rank) const { return membership_.key(str(what_, " of rank ", rank)); }

  const Membership& membership_;
  std::string what_;
  std::atomic<std::uint64_t> entered_{0};
  std::uint64_t published_ = 0;
};

}  // namespace ringlet::comm
