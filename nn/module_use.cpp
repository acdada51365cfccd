// The use of a whole module: its parameters and buffers, its device, its mode.
#include "ringlet/nn/module.h"
#include "ringlet/nn/name_pattern.h"

namespace ringlet::nn {
namespace {

/// The handle called `name` among `all`, pairs of a name and a handle.
template <class Named>
autograd::Variable find_named(const char* what, const std::vector<Named>& all,
                              const std::string& name) {
  std::vector<std::string> known;
  for (const auto& [one, handle] : all) {
    if (one == name) return handle;
    known.push_back(one);
  }
  fail_no_match(what, name, known);
}

}  // namespace

std::vector<Parameter> Module::parameters() const {
  std::vector<Parameter> all;
  for (NamedParameter& named : named_parameters()) all.push_back(std::move(named.parameter));
  return all;
}

std::vector<std::pair<std::string, Tensor>> Module::named_buffers() const {
  std::vector<std::pair<std::string, Tensor>> all;
  for (const auto& [name, buffer] : buffer_handles()) all.emplace_back(name, buffer.tensor());
  return all;
}

Parameter Module::parameter(const std::string& name) const {
  return find_named("parameter", named_parameters(), name);
}

Buffer Module::buffer(const std::string& name) const {
  return find_named("buffer", buffer_handles(), name);
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
    for (const auto& [name, own] : module.buffers_) own.set_tensor(own.tensor().to(device));
  });
}

std::shared_ptr<Module> Module::blank_copy(Cloner&) const {
  fail("[module] a ", kind(), " cannot be copied: it has no blank_copy");
}

std::uint32_t Module::site() const {
  std::uint32_t hash = 2166136261u;  // FNV-1a
  for (const char c : path_) hash = (hash ^ static_cast<unsigned char>(c)) * 16777619u;
  return hash;
}

Device Module::device(Device otherwise) const {
  const std::vector<NamedParameter> all = named_parameters();
  return all.empty() ? otherwise : all.front().parameter.device();
}

}  // namespace ringlet::nn
