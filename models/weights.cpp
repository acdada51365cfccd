#include "ringlet/core/io/json_node.h"
#include "ringlet/models/folder.h"

#include <map>
#include <optional>
#include <set>

#include "ringlet/core/base/quote.h"
#include "ringlet/core/io/file.h"
#include "ringlet/core/io/safetensors.h"
#include "ringlet/models/transformer.h"
#include "ringlet/nn/lora.h"
#include "ringlet/nn/sharding.h"

namespace ringlet::models {
namespace fs = std::filesystem;
namespace {

void replace_suffix(std::string& name, const std::string& from, const std::string& to) {
  if (name.ends_with(from)) name.replace(name.size() - from.size(), from.size(), to);
}

// The name that the model uses for a tensor of a checkpoint.
std::string model_name(std::string name) {
  for (const char* prefix : {"bert.", "mpnet.", "roberta.", "distilbert."})
    if (name.starts_with(prefix)) name.erase(0, std::string(prefix).size());
  replace_suffix(name, "LayerNorm.gamma", "LayerNorm.weight");
  replace_suffix(name, "LayerNorm.beta", "LayerNorm.bias");
  return name;
}

/// The line of Python that writes model.safetensors from pytorch_model.bin.
std::string conversion(const fs::path& folder, bool transformer) {
  const std::string path = folder.string();
  if (transformer)
    return str("from transformers import AutoModel; AutoModel.from_pretrained('", path,
               "').save_pretrained('", path, "')");
  return str("import torch, safetensors.torch as s; s.save_file(torch.load('", path,
             "/pytorch_model.bin'), '", path, "/model.safetensors')");
}

SafeTensors open_weights(const fs::path& folder, bool transformer) {
  const bool safe = path_exists(folder / "model.safetensors") ||
                    path_exists(folder / "model.safetensors.index.json");
  if (!safe && path_exists(folder / "pytorch_model.bin"))
    fail_input((folder / "pytorch_model.bin").string(),
               ": pickled weights are not read; convert them with python -c \"",
               conversion(folder, transformer), '"');
  return SafeTensors::open(folder);
}

/// The tensor is missing, or has a wrapper's prefix: "module.", "_orig_mod.", "0.auto_model.".
[[noreturn]] void refuse_missing(const SafeTensors& file, const std::string& name) {
  for (const std::string& other : file.names())
    if (other.ends_with('.' + name))
      fail_input(file.path().string(), ": tensor ", quote(name), " is missing, ", quote(other),
                 " is there: save the model without the wrapper that adds the prefix");
  fail_input(file.path().string(), ": tensor ", quote(name), " is missing");
}

// In storage of its own, so that it moves and is written by itself. f32 stays in the mapping; other
// dtypes do until they are first looked at, so that a rank that keeps a shard converts no more.
Tensor weight(const SafeTensors& file, const std::string& name) {
  if (file.dtype(name) == DType::f32) {
    const Tensor mapped = file.load(name);
    auto* bytes = const_cast<std::byte*>(mapped.bytes());
    auto alone = std::make_shared<Storage>(bytes, mapped.nbytes(), mapped.device(),
                                           [storage = mapped.storage()] {});
    return Tensor(std::move(alone), 0, mapped.shape(), mapped.dtype());
  }
  const Shape shape = file.shape(name);
  const std::size_t nbytes = static_cast<std::size_t>(shape.numel()) * sizeof(float);
  const auto convert = [file, name, shape, nbytes](std::byte* bytes) {
    Tensor value(std::make_shared<Storage>(bytes, nbytes, Device{}, [] {}), 0, shape, DType::f32);
    file.load_into(name, value);
  };
  return Tensor(std::make_shared<Storage>(nbytes, Device{}, convert), 0, shape, DType::f32);
}

/// Names the key that makes Python compute in another dtype than f32. The weights' dtype counts
/// where config.json has none.
void name_dtype(const fs::path& folder, const SafeTensors& weights, bool all_f32, Notes& notes) {
  const JsonNode config(folder / "config.json");
  for (const char* key : {"dtype", "torch_dtype"}) {
    if (!config.has(key)) continue;
    if (config.at(key).value() != "float32") notes.push_back(config.source() + ": " + quote(key));
    return;
  }
  if (!all_f32) notes.push_back(weights.path().string() + ": 'dtype'");
}

}  // namespace

std::vector<std::string> load_weights(const fs::path& folder, nn::Module& module, Notes* notes) {
  const SafeTensors file = open_weights(folder, dynamic_cast<Transformer*>(&module) != nullptr);
  const std::string source = file.path().string();
  std::map<std::string, std::string> in_file;  // model name to the file's
  for (const std::string& name : file.names()) {
    const auto [known, is_new] = in_file.emplace(model_name(name), name);
    if (!is_new)
      fail_input(source, ": tensors ", quote(known->second), " and ", quote(name),
                 " are the same parameter");
  }
  bool all_f32 = true;
  for (const nn::NamedParameter& named : module.named_parameters()) {
    const auto found = in_file.find(named.name);
    if (found == in_file.end()) refuse_missing(file, named.name);
    const std::string& name = found->second;
    if (file.shape(name) != named.parameter.shape())
      fail_input(source, ": tensor ", quote(name), " has shape ", file.shape(name),
                 ", but config.json says ", named.parameter.shape());
    if (!is_floating(file.dtype(name)))
      fail_input(source, ": tensor ", quote(name), " is ", file.dtype(name),
                 ", expected f32, bf16 or f16");
    all_f32 &= file.dtype(name) == DType::f32;
    named.parameter.set_tensor(weight(file, name));
    in_file.erase(found);
  }
  if (notes != nullptr) name_dtype(folder, file, all_f32, *notes);
  std::vector<std::string> unused;
  for (const auto& [name, original] : in_file)
    if (!name.ends_with("position_ids")) unused.push_back(original);
  return unused;
}

void save_weights(const fs::path& folder, const nn::Module& module) {
  std::vector<const nn::Lora*> adapters;
  std::set<const void*> merged;  // into others
  const_cast<nn::Module&>(module).visit([&](const std::string&, nn::Module& below) {
    const auto* const adapter = dynamic_cast<const nn::Lora*>(&below);
    if (!adapter) return;
    adapters.push_back(adapter);
    const auto [a, b] = adapter->factors();
    merged.insert({a.state().get(), b.state().get()});
  });
  std::vector<nn::NamedParameter> parameters = module.named_parameters();
  std::erase_if(parameters, [&](const nn::NamedParameter& named) {
    return merged.contains(named.parameter.state().get());
  });
  nn::WholeParameters whole(module);
  std::optional<SafeTensorsWriter> writer;
  if (whole.writes()) {
    std::vector<SafeTensorsWriter::Entry> entries;
    for (const auto& [name, parameter] : parameters)
      entries.push_back({name, parameter.dtype(), nn::whole_shape(parameter)});
    writer.emplace(folder / "model.safetensors", entries);
  }
  for (const auto& [name, parameter] : parameters) {
    Tensor value = whole(parameter);
    for (const nn::Lora* adapter : adapters) {
      if (!(adapter->weight() == parameter)) continue;
      const Tensor weight = value.clone();
      const auto [a, b] = adapter->factors();
      const Tensor whole_a = whole(a).clone();
      value = adapter->merged(weight, whole_a, whole(b));
    }
    if (writer) writer->write(name, 0, value);
  }
  if (writer) writer->commit();
}

}  // namespace ringlet::models
