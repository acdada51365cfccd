// Module::replace: layers exchanged by name.
#include <algorithm>
#include <map>

#include "ringlet/core/nearest.h"
#include "ringlet/nn/module.h"

namespace ringlet::nn {
namespace {

std::vector<std::string_view> parts_of(std::string_view name, char separator) {
  std::vector<std::string_view> parts;
  for (std::size_t end; (end = name.find(separator)) != name.npos; name.remove_prefix(end + 1))
    parts.push_back(name.substr(0, end));
  parts.push_back(name);
  return parts;
}

bool matches(std::string_view pattern, std::string_view name) {
  const std::vector<std::string_view> wanted = parts_of(pattern, '.'), given = parts_of(name, '.');
  return wanted.size() <= given.size() &&
         std::equal(wanted.rbegin(), wanted.rend(), given.rbegin(),
                    [](std::string_view a, std::string_view b) { return a == "*" || a == b; });
}

[[noreturn]] void fail_no_layer(std::string_view pattern, const std::vector<std::string>& all) {
  const std::vector<std::string> near = nearest(std::string(pattern), all);
  fail("[module] no replaceable layer '", pattern, "'",
       near.empty() ? "" : "; near: ", near.empty() ? "" : near.front());
}

}  // namespace

std::size_t Module::replace_layers(const std::string& pattern, const MakeLayer& make) {
  struct Found {
    std::string name;
    Module* owner;
    std::size_t layer;
    std::shared_ptr<Module> before = {}, after = {};
    Replaceable& of_owner() const { return owner->replaceables_[layer]; }
  };
  std::vector<Found> found;
  std::vector<std::string> all;
  const std::vector<std::string_view> patterns = parts_of(pattern, ',');
  std::vector<bool> matched(patterns.size());
  visit([&](const std::string& path, Module& owner) {
    for (std::size_t i = 0; i < owner.replaceables_.size(); ++i) {
      std::string name = (path.empty() ? "" : path + '.') + owner.replaceables_[i].name;
      all.push_back(name);
      // Layers inside a replaced one belong to the new layer; a layer with two paths is replaced
      // once.
      const bool inside = std::any_of(found.begin(), found.end(), [&](const Found& other) {
        return name.starts_with(other.name + '.') || &other.of_owner() == &owner.replaceables_[i];
      });
      bool wanted = false;
      for (std::size_t p = 0; p < patterns.size() && !inside; ++p)
        if (matches(patterns[p], name)) matched[p] = wanted = true;
      if (wanted) found.push_back({std::move(name), &owner, i});
    }
  });
  for (std::size_t p = 0; p < patterns.size(); ++p)
    if (!matched[p]) fail_no_layer(patterns[p], all);
  struct Former {
    std::vector<NamedParameter> parameters;
    std::vector<std::pair<std::string, std::shared_ptr<Module>>> children;
    std::vector<Replaceable> replaceables;
  };
  std::map<Module*, Former> former;
  for (const Found& one : found) {
    one.owner->check_movable(one.name);
    former[one.owner] = {one.owner->parameters_, one.owner->children_, one.owner->replaceables_};
  }
  std::size_t set = 0;
  try {
    for (Found& one : found) {
      one.before = one.of_owner().current();
      one.after = make(one.name, one.before);
    }
    for (; set < found.size(); ++set)
      found[set].owner->set_layer(found[set].of_owner(), found[set].after);
  } catch (...) {
    for (std::size_t i = 0; i < set; ++i) found[i].of_owner().set(found[i].before);
    for (Found& one : found) one.after.reset();
    for (auto& [owner, was] : former) {
      owner->parameters_ = was.parameters;
      owner->children_ = was.children;
      owner->replaceables_ = was.replaceables;
      for (const auto& [name, child] : owner->children_)
        if (!child->parent_) owner->adopt(*child);
    }
    outermost().name_all();  // make may have put a layer elsewhere
    throw;
  }
  return found.size();
}

// An optimizer or a strategy keeps the parameters that existed when it was made.
void Module::check_movable(const std::string& name) const {
  bool taken = false;
  for (const Module* above = this; above; above = above->parent_) taken = taken || above->arena_;
  for (const NamedParameter& own : named_parameters()) {
    const Tensor& value = own.parameter.tensor();
    taken = taken || value.nbytes() != value.storage()->nbytes() ||
            !own.parameter.state()->observer.expired();
  }
  RINGLET_CHECK(!taken, "[module] ", name,
                " is replaced before an optimizer or a strategy is made, not after");
}

void Module::set_layer(Replaceable& layer, const std::shared_ptr<Module>& module) {
  RINGLET_CHECK(module, "[module] '", layer.name, "' is to be replaced by null");
  RINGLET_CHECK(layer.set(module), "[module] ", layer.name, " of a ", kind(),
                " cannot be replaced by a ", module->kind());
  std::erase_if(parameters_, [&](const NamedParameter& own) {
    return std::find(layer.parameters.begin(), layer.parameters.end(), own.name) !=
           layer.parameters.end();
  });
  layer.parameters.clear();
  layer.replaced = true;
  const auto child = std::find_if(children_.begin(), children_.end(),
                                  [&](const auto& known) { return known.first == layer.name; });
  if (child == children_.end()) return add_child(layer.name, module);
  if (child->second->parent_ == this) child->second->parent_ = nullptr;
  child->second = module;
  adopt(*module);
}

// Repeats the replacements of layers in `original`, of which this is a blank copy.
void Module::replace_as_in(const Module& original, Cloner& cloner) {
  // In the order of the children, which is the order of their parameters.
  for (const auto& [name, child] : original.children_)
    for (std::size_t i = 0; i < original.replaceables_.size(); ++i)
      if (original.replaceables_[i].replaced && original.replaceables_[i].name == name)
        set_layer(replaceables_.at(i), cloner(child));
  for (std::size_t i = 0; i < std::min(children_.size(), original.children_.size()); ++i)
    children_[i].second->replace_as_in(*original.children_[i].second, cloner);
}

}  // namespace ringlet::nn
