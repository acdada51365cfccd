// Which parameters a step must reach.
#pragma once

#include <map>
#include <set>
#include <span>
#include <unordered_set>
#include <vector>

#include "ringlet/models/losses/loss.h"
#include "ringlet/nn/module.h"

namespace ringlet::train {

/// All trainable parameters of a module must get a gradient from every backward; of a module that
/// holds several losses, those of the losses that ran. The other losses' heads are skipped.
class ReachCheck {
 public:
  explicit ReachCheck(nn::Module& module);

  /// To be called after each module's forward.
  void ran(nn::Module& module);
  /// Around the outermost module's: of one that threw no loss has run.
  void forward_begins() { before_ = ran_; }
  void forward_failed() { ran_ = before_; }
  /// Throws, naming them, when parameters that must be reached are not among `reached`.
  void check(const char* strategy, std::span<autograd::VariableState* const> reached);

 private:
  using Losses = std::set<const models::Loss*>;
  std::vector<nn::NamedParameter> required() const;

  nn::Module& module_;
  std::map<const nn::Module*, std::vector<const models::Loss*>> below_;  // losses below a loss
  Losses ran_;                                                           // since the last backward
  Losses before_;                                                        // the forward under way
  std::map<Losses, std::vector<nn::NamedParameter>> required_;           // by what ran
};

}  // namespace ringlet::train
