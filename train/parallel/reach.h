// Which parameters a step must reach.
#pragma once

#include <map>
#include <set>
#include <span>
#include <string_view>
#include <vector>

#include "ringlet/nn/module.h"

namespace ringlet::train {

/// All trainable parameters of a module must receive a gradient from every backward. If the module
/// holds several losses, only those of the losses that ran must; other losses' heads are skipped.
class ReachCheck {
 public:
  explicit ReachCheck(nn::Module& module);

  /// Must be called after each module's forward.
  void ran(nn::Module& module);
  /// Called around the outermost module's forward: in one that threw, no loss counts as run.
  void forward_begins() { before_ = ran_; }
  void forward_failed() { ran_ = before_; }
  /// Throws if required parameters are not among `reached`, and names them.
  void check(std::string_view strategy, std::span<autograd::VariableState* const> reached);

 private:
  using Losses = std::set<const nn::Module*>;
  std::vector<nn::NamedParameter> required() const;

  nn::Module& module_;
  std::map<const nn::Module*, std::vector<const nn::Module*>> below_;  // losses below a loss
  Losses ran_;                                                         // since the last backward
  Losses before_;                                                      // before this forward
  std::map<Losses, std::vector<nn::NamedParameter>> required_;         // by the losses that ran
};

}  // namespace ringlet::train
