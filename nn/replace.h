// Layers that a program exchanges by name:
//   nn::replace<nn::Linear>(model, {"encoder.layer.*.attention.attn.q"}, make);
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "ringlet/nn/module.h"

namespace ringlet::nn {

/// A module with layers that nn::replace may exchange.
class Replaceable : public Module {
 public:
  using MakeLayer =
      std::function<std::shared_ptr<Module>(const std::string& name, std::shared_ptr<Module>)>;
  static std::size_t replace_layers(Module& module, const std::vector<std::string>& patterns,
                                    const MakeLayer& make);
  /// Repeats the replacements of `original`, of which this is a blank copy.
  using CopyLayer = std::function<std::shared_ptr<Module>(const std::shared_ptr<Module>&)>;
  void replace_as_in(const Replaceable& original, const CopyLayer& copy);

 protected:
  /// A child that may be exchanged for another M; `member` is set to it.
  template <class M>
  void register_replaceable(const std::string& name, std::shared_ptr<M>& member,
                            std::shared_ptr<M> module) {
    member = register_module(name, std::move(module));
    register_replaceable<M>(name, member, {}, {});
  }
  /// A layer that is adjacent `parameters` of this module (by their own names) until it is
  /// replaced. `current` makes a module that computes the same.
  template <class M>
  void register_replaceable(const std::string& name, std::shared_ptr<M>& member,
                            std::vector<std::string> parameters,
                            std::function<std::shared_ptr<Module>()> current) {
    layers_.push_back({name, std::move(parameters),
                       [&member, current = std::move(current)]() -> std::shared_ptr<Module> {
                         return member || !current ? member : current();
                       },
                       [](Module& module) { return dynamic_cast<M*>(&module) != nullptr; },
                       [&member](const std::shared_ptr<Module>& module) {
                         member = std::dynamic_pointer_cast<M>(module);
                       }});
  }

 private:
  struct ReplaceableLayer {
    std::string name;
    std::vector<std::string> parameters;  // of this module, until the layer is replaced
    std::function<std::shared_ptr<Module>()> current;
    std::function<bool(Module&)> accepts;
    std::function<void(const std::shared_ptr<Module>&)> set;
    bool replaced = false;
  };
  void check_movable(const std::string& name) const;
  void check_fits(const ReplaceableLayer& layer, const std::shared_ptr<Module>& module) const;
  void set_layer(ReplaceableLayer& layer, const std::shared_ptr<Module>& module);

  std::vector<ReplaceableLayer> layers_;
};

/// Replaces each layer that a pattern names by make(layer), which may keep the old one inside, and
/// returns how many. Patterns are those of name_pattern.h: "encoder.layer.*.attention.attn.q".
/// Error, with nothing changed, if a pattern names no M or an optimizer or a strategy exists.
template <class M = Module, class Make>
std::size_t replace(Module& module, const std::vector<std::string>& patterns, Make&& make) {
  const auto make_typed = [&](const std::string& name, std::shared_ptr<Module> layer) {
    auto typed = std::dynamic_pointer_cast<M>(layer);
    RINGLET_CHECK(typed, "[module] ", name, " is a ", layer->kind(),
                  ", not of the class asked for");
    return std::shared_ptr<Module>(make(std::move(typed)));
  };
  return Replaceable::replace_layers(module, patterns, make_typed);
}
}  // namespace ringlet::nn
