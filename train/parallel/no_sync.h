// Gradient accumulation under a strategy.
#pragma once

#include <memory>
#include <utility>

namespace ringlet::train {

/// While it lives, gradients add up on each rank separately and nothing is sent. The next backward
/// without it reduces the accumulated gradients; until then an optimizer refuses to step.
class NoSync {
 public:
  explicit NoSync(std::shared_ptr<int> paused) : paused_(std::move(paused)) { ++*paused_; }
  ~NoSync() { --*paused_; }
  NoSync(const NoSync&) = delete;
  NoSync& operator=(const NoSync&) = delete;

 private:
  std::shared_ptr<int> paused_;
};

}  // namespace ringlet::train
