#include "ringlet/nn/replace.h"

#include <algorithm>

#include "ringlet/nn/name_pattern.h"

namespace ringlet::nn {

std::size_t Replaceable::replace_layers(Module& module, const std::vector<std::string>& patterns,
                                        const MakeLayer& make) {
  struct Found {
    std::string name;
    Replaceable* owner;
    ReplaceableLayer* layer;
    std::shared_ptr<Module> after = {};
  };
  std::vector<Found> found;
  std::vector<std::string> all;
  std::vector<bool> matched(patterns.size());
  module.visit([&](const std::string& path, Module& below) {
    auto* const owner = dynamic_cast<Replaceable*>(&below);
    if (!owner) return;
    for (ReplaceableLayer& layer : owner->layers_) {
      std::string name = (path.empty() ? "" : path + '.') + layer.name;
      all.push_back(name);
      // Layers inside a replaced one belong to the new layer; a layer with two paths is replaced
      // once.
      const bool inside = std::any_of(found.begin(), found.end(), [&](const Found& other) {
        return name.starts_with(other.name + '.') || other.layer == &layer;
      });
      bool wanted = false;
      for (std::size_t p = 0; p < patterns.size() && !inside; ++p)
        if (names_layer(patterns[p], name)) matched[p] = wanted = true;
      if (wanted) found.push_back({std::move(name), owner, &layer});
    }
  });
  for (std::size_t p = 0; p < patterns.size(); ++p)
    if (!matched[p]) fail_no_match("replaceable layer", patterns[p], all);
  for (const Found& one : found) one.owner->check_movable(one.name);
  try {
    for (Found& one : found) one.after = make(one.name, one.layer->current());
    for (const Found& one : found) one.owner->check_fits(*one.layer, one.after);
  } catch (...) {
    for (Found& one : found) one.after.reset();
    // A layer inside a destroyed replacement has no parent, and its parameters have other names.
    for (const Found& one : found)
      for (const auto& [name, child] : one.owner->children_)
        if (!child->parent_) one.owner->adopt(*child);
    module.outermost().name_all();
    throw;
  }
  for (const Found& one : found) one.owner->set_layer(*one.layer, one.after);
  return found.size();
}

// An optimizer or a strategy keeps the parameters that existed when it was made.
void Replaceable::check_movable(const std::string& name) const {
  bool taken = false;
  for (const Module* above = this; above; above = above->parent_) taken = taken || above->arena_;
  for (const NamedParameter& own : named_parameters()) {
    const Tensor& value = own.parameter.tensor();
    taken = taken || value.nbytes() != value.storage()->nbytes() ||
            !own.parameter.state()->observer.expired() || own.parameter.state()->slice;
  }
  RINGLET_CHECK(!taken, "[module] ", name,
                " is replaced before an optimizer or a strategy is made, not after");
}

void Replaceable::check_fits(const ReplaceableLayer& layer,
                             const std::shared_ptr<Module>& module) const {
  RINGLET_CHECK(module, "[module] '", layer.name, "' is to be replaced by null");
  RINGLET_CHECK(layer.accepts(*module), "[module] ", layer.name, " of a ", kind(),
                " cannot be replaced by a ", module->kind());
}

void Replaceable::set_layer(ReplaceableLayer& layer, const std::shared_ptr<Module>& module) {
  layer.set(module);
  std::erase_if(parameters_, [&](const NamedParameter& own) {
    return std::ranges::count(layer.parameters, own.name) > 0;
  });
  layer.parameters.clear();
  layer.replaced = true;
  const auto child =
      std::ranges::find(children_, layer.name, [](const auto& c) { return c.first; });
  if (child == children_.end()) return add_child(layer.name, module);
  if (child->second->parent_ == this) child->second->parent_ = nullptr;
  child->second = module;
  adopt(*module);
}

void Replaceable::replace_as_in(const Replaceable& original, const CopyLayer& copy) {
  // In the order of the children, which is the order of their parameters.
  for (const auto& [name, child] : original.children_)
    for (std::size_t i = 0; i < layers_.size(); ++i) {
      if (!original.layers_.at(i).replaced || layers_[i].name != name) continue;
      const std::shared_ptr<Module> layer = copy(child);
      check_fits(layers_[i], layer);
      set_layer(layers_[i], layer);
    }
}

}  // namespace ringlet::nn
