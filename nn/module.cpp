#include "ringlet/nn/module.h"

#include <algorithm>
#include <set>

#include "ringlet/autograd/node.h"

namespace ringlet::nn {
namespace {

std::string join(const std::string& prefix, const std::string& name) {
  if (prefix.empty() || name.empty()) return prefix + name;
  return prefix + '.' + name;
}

struct BeforeBackward final : autograd::Node {
  std::function<void()> hook;
  const char* name() const override { return "before_backward"; }
  void backward(const Tensor& grad, autograd::Gradients& grads) override {
    hook();
    grads[0].set(grad);
  }
};

}  // namespace

Module::~Module() {
  for (const auto& [name, child] : children_)
    if (child->parent_ == this) child->parent_ = nullptr;
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

std::vector<Parameter> Module::parameters() const {
  std::vector<Parameter> all;
  for (NamedParameter& named : named_parameters()) all.push_back(std::move(named.parameter));
  return all;
}

std::vector<std::pair<std::string, Tensor>> Module::named_buffers() const {
  std::vector<std::pair<std::string, Tensor>> all;
  const_cast<Module*>(this)->visit([&](const std::string& prefix, Module& module) {
    for (const auto& [name, value] : module.buffers_) all.emplace_back(join(prefix, name), value);
  });
  return all;
}

Parameter Module::parameter(const std::string& name) const {
  const std::vector<NamedParameter> all = named_parameters();
  for (const NamedParameter& named : all)
    if (named.name == name) return named.parameter;
  std::string near;
  const std::string last = name.substr(name.rfind('.') + 1);
  for (const NamedParameter& named : all)
    if (named.name.ends_with(last) && near.size() < 200)
      near += (near.empty() ? "" : ", ") + named.name;
  fail("no parameter '", name, "'", near.empty() ? "" : "; near: ", near);
}

std::int64_t Module::num_parameters() const {
  std::int64_t n = 0;
  for (const NamedParameter& named : named_parameters()) n += named.parameter.numel();
  return n;
}

void Module::train(bool training) {
  visit([&](const std::string&, Module& module) { module.training_ = training; });
}

void Module::zero_grad() const {
  for (const NamedParameter& named : named_parameters()) named.parameter.zero_grad();
}

void Module::to(Device device) {
  // Packed parameters are views: moving one would take it out of its arena.
  for (const NamedParameter& named : named_parameters())
    RINGLET_CHECK(named.parameter.tensor().nbytes() == named.parameter.tensor().storage()->nbytes(),
                  "[module] ", named.name, " lies in an arena; move a module before it is packed");
  for (const NamedParameter& named : named_parameters())
    named.parameter.set_tensor(named.parameter.tensor().to(device));
  visit([&](const std::string&, Module& module) {
    for (auto& [name, value] : module.buffers_) value = value.to(device);
  });
}

std::string Module::path() const { return parent_ ? join(parent_->path(), name_) : ""; }

std::uint32_t Module::site() const {
  std::uint32_t hash = 2166136261u;  // FNV-1a
  for (const char c : path()) hash = (hash ^ static_cast<unsigned char>(c)) * 16777619u;
  return hash;
}

Parameter Module::register_parameter(const std::string& name, Tensor value) {
  for (const NamedParameter& own : parameters_)
    RINGLET_CHECK(own.name != name, "[module] parameter '", name, "' registered twice");
  Parameter parameter(std::move(value), true);
  parameter.set_name(name);
  parameters_.push_back({name, parameter});
  return parameter;
}

void Module::register_buffer(const std::string& name, Tensor value) {
  buffers_.emplace_back(name, std::move(value));
}

void Module::add_child(const std::string& name, std::shared_ptr<Module> module) {
  RINGLET_CHECK(module, "[module] child '", name, "' is null");
  for (const auto& [known, child] : children_)
    RINGLET_CHECK(name.empty() || known != name, "[module] child '", name, "' registered twice");
  if (!module->parent_) {
    module->parent_ = this;
    module->name_ = name;
  }
  children_.emplace_back(name, std::move(module));
  // Errors and reports name parameters by their whole path from here.
  for (const NamedParameter& named : named_parameters()) named.parameter.set_name(named.name);
}

autograd::Variable Module::before_backward(autograd::Variable result) {
  if (!hooks_.pre_backward) return result;
  return autograd::record<BeforeBackward>(result.tensor(), {result}, [&](BeforeBackward& node) {
    node.hook = [this] { hooks_.pre_backward(*this); };
  });
}

}  // namespace ringlet::nn
