#include "ringlet/nn/module.h"

#include <set>

#include "ringlet/autograd/node.h"

namespace ringlet::nn {
namespace {

std::string join(const std::string& prefix, const std::string& name) {
  if (prefix.empty() || name.empty()) return prefix + name;
  return prefix + '.' + name;
}

template <class Named>
void check_new(const char* what, const std::vector<Named>& known, const std::string& name) {
  for (const auto& [one, handle] : known)
    RINGLET_CHECK(one != name, "[module] ", what, " '", name, "' registered twice");
}

}  // namespace

Module::~Module() {
  for (const auto& [name, child] : children_) {
    if (child->parent_ != this) continue;
    child->parent_ = nullptr;
    child->name_all();
  }
}

Module& Module::outermost() { return parent_ ? parent_->outermost() : *this; }

// Tells every module below its path, and every parameter its name, from here.
void Module::name_all() {
  std::set<const void*> seen;
  visit([&](const std::string& path, Module& module) {
    if (!seen.insert(&module).second) return;
    module.path_ = path;
    for (const NamedParameter& own : module.parameters_)
      if (seen.insert(own.parameter.state().get()).second)
        own.parameter.set_name(join(path, own.name));
    for (const auto& [name, own] : module.buffers_) own.set_name(join(path, name));
  });
}

void Module::visit(const std::function<void(const std::string&, Module&)>& visit,
                   const std::string& prefix) {
  visit(prefix, *this);
  for (const auto& [name, child] : children_) child->visit(visit, join(prefix, name));
}

std::vector<NamedParameter> Module::named_parameters() const {
  std::vector<NamedParameter> all;
  std::set<const void*> seen;
  const_cast<Module*>(this)->visit([&](const std::string& prefix, Module& module) {
    for (const NamedParameter& own : module.parameters_)
      if (seen.insert(own.parameter.state().get()).second)
        all.push_back({join(prefix, own.name), own.parameter});
  });
  return all;
}

std::vector<std::pair<std::string, Buffer>> Module::buffer_handles() const {
  std::vector<std::pair<std::string, Buffer>> all;
  std::set<const Module*> seen;
  const_cast<Module*>(this)->visit([&](const std::string& prefix, Module& module) {
    if (!seen.insert(&module).second) return;
    for (const auto& [name, buffer] : module.buffers_) all.emplace_back(join(prefix, name), buffer);
  });
  return all;
}

Parameter Module::register_parameter(const std::string& name, Tensor value) {
  check_new("parameter", parameters_, name);
  Parameter parameter(std::move(value), true);
  parameter.set_name(join(path_, name));
  parameters_.push_back({name, parameter});
  return parameter;
}

void Module::register_parameter(const std::string& name, const Parameter& shared) {
  check_new("parameter", parameters_, name);
  parameters_.push_back({name, shared});
}

Buffer Module::register_buffer(const std::string& name, Tensor value) {
  check_new("buffer", buffers_, name);
  Buffer buffer(std::move(value));
  buffer.set_name(join(path_, name));
  buffers_.emplace_back(name, buffer);
  return buffer;
}

void Module::add_child(const std::string& name, std::shared_ptr<Module> module) {
  RINGLET_CHECK(module, "[module] child '", name, "' is null");
  if (!name.empty()) check_new("child", children_, name);
  children_.emplace_back(name, std::move(module));
  adopt(*children_.back().second);
}

// One that is held elsewhere, an encoder that losses share for example, is named from here on from
// the newest of those that hold it.
void Module::adopt(Module& child) {
  Module& top = outermost();
  if (&child.outermost() != &top) child.parent_ = this;
  top.name_all();
}

autograd::Variable Module::before_backward(autograd::Variable result) {
  if (!hooks_.pre_backward && !strategy_hooks_.pre_backward) return result;
  return autograd::record("before_backward", result.tensor(), {result},
                          [this](const Tensor& grad, autograd::Gradients& grads) {
                            for (const ModuleHooks* of : {&strategy_hooks_, &hooks_})
                              if (of->pre_backward) of->pre_backward(*this);
                            grads[0].set(grad);
                          });
}

}  // namespace ringlet::nn
