#include "ringlet/nn/clone.h"

#include <algorithm>

#include "ringlet/core/tensor/random.h"
#include "ringlet/nn/replace.h"

namespace ringlet::nn {
namespace {

void copy_value(const autograd::Variable& from, const autograd::Variable& to, Device device) {
  const Tensor& value = from.tensor();
  to.set_tensor(value.device() == device ? value.clone() : value.to(device));
}

}  // namespace

void Cloner::complete(const Module& original, Module& copy, Device device) {
  const auto* const from = dynamic_cast<const Replaceable*>(&original);
  if (auto* const to = dynamic_cast<Replaceable*>(&copy); from && to)
    to->replace_as_in(*from, [this](const auto& layer) { return (*this)(layer); });
  copy.training_ = original.training_;
  for (std::size_t i = 0; i < std::min(original.buffers_.size(), copy.buffers_.size()); ++i)
    copy_value(original.buffers_[i].second, copy.buffers_[i].second, device);
  for (std::size_t i = 0; i < std::min(original.children_.size(), copy.children_.size()); ++i)
    complete(*original.children_[i].second, *copy.children_[i].second, device);
}

std::shared_ptr<Module> clone(const Module& module, Device device) {
  const GeneratorGuard undisturbed(default_generator());
  Cloner cloner;
  std::shared_ptr<Module> copy = module.blank_copy(cloner);
  cloner.complete(module, *copy, device);
  const std::vector<NamedParameter> from = module.named_parameters(), to = copy->named_parameters();
  RINGLET_CHECK_EQ(from.size(), to.size(), "[module] parameters of a copy of a ", module.kind());
  for (std::size_t i = 0; i < from.size(); ++i) {
    RINGLET_CHECK_EQ(from[i].name, to[i].name, "[module] a parameter of a copy of a ",
                     module.kind());
    copy_value(from[i].parameter, to[i].parameter, device);
    to[i].parameter.set_requires_grad(from[i].parameter.requires_grad());
  }
  return copy;
}

}  // namespace ringlet::nn
