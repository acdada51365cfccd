#include "ringlet/nn/module_file.h"

#include <set>

#include "ringlet/core/base/quote.h"
#include "ringlet/nn/sharding.h"

namespace ringlet::nn {

std::vector<SafeTensorsWriter::Entry> saved_tensors(const Module& module, bool frozen) {
  std::vector<SafeTensorsWriter::Entry> entries;
  for (const auto& [name, parameter] : module.named_parameters())
    if (frozen || parameter.requires_grad())
      entries.push_back({name, parameter.dtype(), whole_shape(parameter)});
  for (const auto& [name, buffer] : module.named_buffers())
    entries.push_back({name, buffer.dtype(), buffer.shape()});
  return entries;
}

void check_tensor(const SafeTensors& file, const SafeTensorsWriter::Entry& expected) {
  const auto& [name, dtype, shape] = expected;
  if (!file.contains(name)) fail_input(file.path().string(), ": has no tensor ", quote(name));
  if (file.shape(name) != shape)
    fail_input(file.path().string(), ": tensor ", quote(name), ": expected shape ", shape,
               ", found ", file.shape(name));
  if (file.dtype(name) != dtype)
    fail_input(file.path().string(), ": tensor ", quote(name), ": expected ", dtype, ", found ",
               file.dtype(name));
}

void check_module(const SafeTensors& file, const Module& module, bool frozen) {
  std::set<std::string> known;
  for (const SafeTensorsWriter::Entry& entry : saved_tensors(module, frozen))
    check_tensor(file, entry);
  for (const SafeTensorsWriter::Entry& entry : saved_tensors(module)) {
    if (file.contains(entry.name)) check_tensor(file, entry);
    known.insert(entry.name);
  }
  for (const std::string& name : file.names())
    if (!known.contains(name))
      fail_input(file.path().string(), ": tensor ", quote(name), " is no parameter of this model");
}

void load_parameter(const Module& module, const Parameter& parameter, const SafeTensors& file,
                    const std::string& name) {
  if (const auto sharding = sharding_of(module)) {
    sharding->assign(parameter, slice_of(parameter, file.load(name)));
  } else if (parameter.state()->slice) {
    parameter.mutable_tensor().copy_(slice_of(parameter, file.load(name)));
  } else {
    file.load_into(name, parameter.mutable_tensor());
  }
}

void load_module(Module& module, const SafeTensors& file) {
  for (const NamedParameter& named : module.named_parameters())
    if (file.contains(named.name)) load_parameter(module, named.parameter, file, named.name);
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
