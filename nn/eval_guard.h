// Evaluation mode for a scope.
#pragma once

#include <vector>

#include "ringlet/nn/module.h"

namespace ringlet::nn {

/// Sets a module and all modules below it to evaluation mode; restores each one's mode at the end.
class EvalGuard {
 public:
  explicit EvalGuard(Module& module) : module_(module) {
    module_.visit([&](const std::string&, Module& below) { modes_.push_back(below.training()); });
    module_.eval();
  }
  ~EvalGuard() {
    std::size_t next = 0;
    module_.visit([&](const std::string&, Module& below) { below.training_ = modes_[next++]; });
  }
  EvalGuard(const EvalGuard&) = delete;
  EvalGuard& operator=(const EvalGuard&) = delete;

 private:
  Module& module_;
  std::vector<bool> modes_;
};

}  // namespace ringlet::nn
