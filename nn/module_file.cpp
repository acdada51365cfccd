#include "ringlet/nn/module_file.h"

#include <set>

#include "ringlet/core/base/quote.h"
#include "ringlet/nn/sharding.h"

namespace ringlet::nn {

NamedTensors saved_tensors(const Module& module) {
  NamedTensors tensors;
  for (const NamedParameter& named : module.named_parameters())
    tensors.emplace_back(named.name, named.parameter.tensor());
  for (auto& buffer : module.named_buffers()) tensors.push_back(buffer);
  return tensors;
}

void check_tensor(const SafeTensors& file, const std::string& name, const Tensor& expected) {
  if (!file.contains(name)) fail_input(file.path().string(), ": has no tensor ", quote(name));
  if (file.shape(name) != expected.shape())
    fail_input(file.path().string(), ": tensor ", quote(name), ": expected shape ",
               expected.shape(), ", found ", file.shape(name));
  if (file.dtype(name) != expected.dtype())
    fail_input(file.path().string(), ": tensor ", quote(name), ": expected ", expected.dtype(),
               ", found ", file.dtype(name));
}

void check_module(const SafeTensors& file, const Module& module) {
  std::set<std::string> known;
  for (const auto& [name, tensor] : saved_tensors(module)) {
    check_tensor(file, name, tensor);
    known.insert(name);
  }
  for (const std::string& name : file.names())
    if (!known.contains(name))
      fail_input(file.path().string(), ": tensor ", quote(name), " is no parameter of this model");
}

void load_module(Module& module, const SafeTensors& file) {
  const auto sharding = sharding_of(module);
  for (const NamedParameter& named : module.named_parameters()) {
    if (sharding) {
      sharding->assign(named.parameter, file.load(named.name));
    } else {
      file.load_into(named.name, named.parameter.mutable_tensor());
    }
  }
  for (auto& [name, buffer] : module.named_buffers()) file.load_into(name, buffer);
}

void load_module(Module& module, const std::filesystem::path& path) {
  const SafeTensors file = SafeTensors::open(path);
  check_module(file, module);
  load_module(module, file);
}

void save_module(const Module& module, const std::filesystem::path& path) {
  WholeParameters whole(module);
  NamedTensors tensors;
  for (const auto& [name, parameter] : module.named_parameters()) {
    const Tensor value = whole(parameter);
    if (whole.writes()) tensors.emplace_back(name, value.clone());
  }
  for (auto& buffer : module.named_buffers()) tensors.push_back(buffer);
  if (whole.writes()) save_safetensors(path, tensors);
  whole.barrier();
}

}  // namespace ringlet::nn
