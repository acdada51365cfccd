// A rank's part of each collective, as a table.
#pragma once

#include <iosfwd>

#include "ringlet/comm/observer.h"

namespace ringlet::comm {

/// Prints one line per step and peer of each collective: the pieces sent and received, with their
/// bytes, and the use of the received ones.
class TracePrinter final : public CollectiveObserver {
 public:
  explicit TracePrinter(std::ostream& out) : out_(out) {}
  void begins(const Collective& collective, const Membership& rank) override;

 private:
  std::ostream& out_;
};

}  // namespace ringlet::comm
