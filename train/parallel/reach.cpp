#include "ringlet/train/parallel/reach.h"

#include <algorithm>
#include <unordered_set>

namespace ringlet::train {

ReachCheck::ReachCheck(nn::Module& module) : module_(module) {
  module.visit([&](const std::string&, nn::Module& outer) {
    if (!outer.is_loss()) return;
    std::vector<const nn::Module*>& inner = below_[&outer];
    outer.visit([&](const std::string&, nn::Module& below) {
      if (below.is_loss() && &below != &outer) inner.push_back(&below);
    });
  });
}

void ReachCheck::ran(nn::Module& module) {
  if (!autograd::grad_enabled() || !below_.contains(&module)) return;
  ran_.insert(&module);
}

// A loss that passed its batch on to another loss requires no parameters itself.
std::vector<nn::NamedParameter> ReachCheck::required() const {
  std::set<const void*> ours;
  const auto add = [&](const nn::Module& module) {
    for (const nn::Parameter& parameter : module.parameters()) ours.insert(parameter.state().get());
  };
  for (const nn::Module* loss : ran_) {
    const auto& inner = below_.at(loss);
    const bool handed_on = std::any_of(
        inner.begin(), inner.end(), [&](const nn::Module* below) { return ran_.contains(below); });
    if (!handed_on) add(*loss);
  }
  if (ran_.empty()) add(module_);
  std::vector<nn::NamedParameter> required;
  for (const nn::NamedParameter& named : module_.named_parameters())
    if (ours.contains(named.parameter.state().get())) required.push_back(named);
  return required;
}

void ReachCheck::check(std::string_view strategy,
                       std::span<autograd::VariableState* const> reached) {
  auto known = required_.find(ran_);
  if (known == required_.end()) known = required_.emplace(ran_, required()).first;
  ran_.clear();
  const std::unordered_set<const autograd::VariableState*> have(reached.begin(), reached.end());
  std::string missing;
  for (const nn::NamedParameter& named : known->second)
    if (named.parameter.requires_grad() && !have.contains(named.parameter.state().get()))
      missing += (missing.empty() ? "" : ", ") + named.name;
  RINGLET_CHECK(missing.empty(), "[", strategy, "] the loss does not reach ", missing,
                "; leave them out of the module or freeze them");
}

}  // namespace ringlet::train
