// The leaves that functions use, for a part of a graph that is run again (checkpoint, replicas).
#pragma once

#include <algorithm>
#include <utility>
#include <vector>

#include "ringlet/autograd/variable.h"

namespace ringlet::autograd {

/// During its lifetime, collects the leaves that functions use on this thread, recorded or not.
class LeafRecorder {
 public:
  LeafRecorder() : previous_(std::exchange(current_, this)) {}
  ~LeafRecorder() { current_ = previous_; }
  LeafRecorder(const LeafRecorder&) = delete;
  LeafRecorder& operator=(const LeafRecorder&) = delete;
  const std::vector<Variable>& leaves() const { return leaves_; }
  /// Whether there is one on this thread: it runs a checkpointed segment, which backward repeats.
  static bool active() { return current_ != nullptr; }
  static void note(const Variable& input) {
    if (!active() || !input.requires_grad() || !input.is_leaf()) return;
    std::vector<Variable>& leaves = current_->leaves_;
    if (std::find(leaves.begin(), leaves.end(), input) == leaves.end()) leaves.push_back(input);
  }

 private:
  static inline thread_local LeafRecorder* current_ = nullptr;
  std::vector<Variable> leaves_;
  LeafRecorder* previous_;
};

}  // namespace ringlet::autograd
