// Modules that hold modules: Sequential and ModuleList. Parameters have PyTorch's names,
// "0.weight".
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "ringlet/nn/clone.h"
#include "ringlet/nn/module.h"

namespace ringlet::nn {

/// Layers and functions of one tensor, called in order:
///
///   Sequential net(std::make_shared<Linear>(784, 128), autograd::relu,
///                  std::make_shared<Linear>(128, 10));
class Sequential final : public UnaryModule {
 public:
  template <class... Parts>
  explicit Sequential(Parts... parts) {
    (push_back(std::move(parts)), ...);
  }
  const char* kind() const override { return "Sequential"; }

  template <class M>
  void push_back(std::shared_ptr<M> layer) {
    add(std::move(layer), [](Module* of, const Variable& x) { return (*static_cast<M*>(of))(x); });
  }
  template <class Function>
  requires std::is_invocable_r_v<Variable, Function, const Variable&>
  void push_back(Function function) {
    add(nullptr, [function](Module*, const Variable& x) { return function(x); });
  }
  std::size_t size() const { return parts_.size(); }

  Variable forward(const Variable& x) override {
    Variable y = x;
    for (const Part& part : parts_) y = part.call(part.layer.get(), y);
    return y;
  }
  std::shared_ptr<Module> blank_copy(Cloner& cloner) const override {
    auto copy = std::make_shared<Sequential>();
    for (const Part& part : parts_) copy->add(part.layer ? cloner(part.layer) : nullptr, part.call);
    return copy;
  }

 private:
  using Call = std::function<Variable(Module*, const Variable&)>;
  struct Part {
    std::shared_ptr<Module> layer;  // null for a function
    Call call;
  };
  void add(std::shared_ptr<Module> layer, Call call) {
    if (layer) register_module(std::to_string(parts_.size()), layer);
    parts_.push_back({std::move(layer), std::move(call)});
  }
  std::vector<Part> parts_;
};

/// Modules of one class, which their owner calls.
template <class M>
class ModuleList final : public Module {
 public:
  const char* kind() const override { return "ModuleList"; }
  void push_back(std::shared_ptr<M> module) {
    modules_.push_back(register_module(std::to_string(size()), std::move(module)));
  }
  std::size_t size() const { return modules_.size(); }
  M& operator[](std::size_t i) const { return *modules_.at(i); }
  auto begin() const { return modules_.begin(); }
  auto end() const { return modules_.end(); }
  std::shared_ptr<Module> blank_copy(Cloner& cloner) const override {
    auto copy = std::make_shared<ModuleList>();
    for (const std::shared_ptr<M>& module : modules_) copy->push_back(cloner(module));
    return copy;
  }

 private:
  std::vector<std::shared_ptr<M>> modules_;
};

}  // namespace ringlet::nn
