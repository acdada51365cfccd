#include "ringlet/nn/lora.h"

#include <set>

#include "ringlet/core/base/quote.h"
#include "ringlet/core/io/json_node.h"
#include "ringlet/nn/module_file.h"
#include "ringlet/nn/name_pattern.h"
#include "ringlet/nn/replace.h"
#include "ringlet/nn/sharding.h"

namespace ringlet::nn {
namespace {

constexpr const char* kConfig = "adapter_config.json";
constexpr const char* kWeights = "adapter_model.safetensors";
// PEFT's wrappers around the model.
constexpr std::string_view kPrefix = "base_model.model.";
constexpr std::string_view kFirst = ".lora_A.weight";

std::vector<const Lora*> adapters_of(const Module& module) {
  std::vector<const Lora*> all;
  const_cast<Module&>(module).visit([&](const std::string&, Module& below) {
    if (const auto* adapter = dynamic_cast<const Lora*>(&below)) all.push_back(adapter);
  });
  return all;
}

/// Whole numbers as PEFT's own files have them.
Json number(double value) {
  const auto whole = static_cast<std::int64_t>(value);
  return static_cast<double>(whole) == value ? Json(whole) : Json(value);
}

std::string stored_name(const Parameter& factor) { return str(kPrefix, factor.name()); }

template <class Make>
std::size_t adapt(Module& module, const std::vector<std::string>& layers, const Make& make) {
  const std::vector<Parameter> frozen = module.parameters();
  const std::size_t count = replace<Linear>(module, layers, make);
  for (const Parameter& parameter : frozen) parameter.set_requires_grad(false);
  return count;
}

// The layers that the file has factors of.
std::vector<std::string> layers_in(const SafeTensors& file) {
  std::vector<std::string> layers;
  for (std::string_view name : file.names()) {
    if (!name.starts_with(kPrefix) || name.find(".lora_") == name.npos)
      fail_input(file.path().string(), ": tensor ", quote(std::string(name)),
                 ": expected base_model.model.LAYER.lora_A.weight or lora_B.weight");
    if (!name.ends_with(kFirst)) continue;
    name.remove_prefix(kPrefix.size());
    layers.emplace_back(name.substr(0, name.size() - kFirst.size()));
  }
  return layers;
}

// PEFT's other settings compute something else.
void check_config(const JsonNode& config) {
  config.require("peft_type", "LORA");
  config.require("bias", "none");
  for (const char* key :
       {"fan_in_fan_out", "lora_bias", "use_bdlora", "use_dora", "use_qalora", "use_rslora"})
    config.require(key, false);
  for (const char* key : {"alora_invocation_tokens", "arrow_config", "layer_replication"})
    config.require(key, nullptr);
  if (config.has("modules_to_save")) config.require("modules_to_save", Json::array());
}

double alpha_of(const JsonNode& config, const std::string& layer) {
  if (config.has("alpha_pattern"))
    for (const auto& [pattern, alpha] : config.at("alpha_pattern").members())
      if (names_layer(pattern, layer)) return alpha.number();
  return config.at("lora_alpha").number();
}

}  // namespace

std::string Lora::name() const {
  const std::string& first = a_->weight.name();
  return first.substr(0, first.size() - kFirst.size());
}

std::size_t add_lora(Module& module, const LoraOptions& options) {
  RINGLET_CHECK(!options.target_modules.empty(), "[add_lora] target_modules is empty");
  return adapt(module, options.target_modules, [&](std::shared_ptr<Linear> base) {
    return std::make_shared<Lora>(std::move(base), options.r, options.alpha);
  });
}

void save_lora(const Module& module, const std::filesystem::path& folder, const std::string& base) {
  const std::vector<const Lora*> adapters = adapters_of(module);
  RINGLET_CHECK(!adapters.empty(), "[save_lora] the module has no LoRA layers");
  const std::int64_t r = adapters.front()->r();
  const double alpha = adapters.front()->alpha();
  Json layers = Json::array(), ranks = Json::object(), alphas = Json::object();
  NamedTensors tensors;
  WholeParameters whole(module);
  for (const Lora* adapter : adapters) {
    const std::string name = adapter->name();
    layers.push_back(name);
    if (adapter->r() != r) ranks[name] = adapter->r();
    if (adapter->alpha() != alpha) alphas[name] = number(adapter->alpha());
    for (const Parameter& factor : adapter->factors()) {
      const Tensor value = whole(factor);
      if (whole.writes()) tensors.emplace_back(stored_name(factor), value.clone());
    }
  }
  if (whole.writes()) {
    const Json config{{"base_model_name_or_path", base.empty() ? Json() : Json(base)},
                      {"peft_type", "LORA"},
                      {"task_type", "FEATURE_EXTRACTION"},
                      {"inference_mode", true},
                      {"r", r},
                      {"lora_alpha", number(alpha)},
                      {"lora_dropout", 0.0},
                      {"target_modules", layers},
                      {"rank_pattern", ranks},
                      {"alpha_pattern", alphas},
                      {"bias", "none"},
                      {"fan_in_fan_out", false}};
    make_folders(folder);
    save_safetensors(folder / kWeights, tensors);
    write_file(folder / kConfig, config.dump(2) + "\n");
  }
  whole.barrier();
}

std::size_t load_lora(Module& module, const std::filesystem::path& folder) {
  const JsonNode config(folder / kConfig);
  check_config(config);
  const SafeTensors file = SafeTensors::open(folder / kWeights);
  const std::vector<std::string> layers = layers_in(file);
  if (adapters_of(module).empty()) {
    try {
      adapt(module, layers, [&](std::shared_ptr<Linear> base) {
        std::string name = base->weight.name();
        name.resize(name.size() - std::string_view(".weight").size());
        const std::int64_t r = file.shape(str(kPrefix, name, kFirst))[0];
        return std::make_shared<Lora>(std::move(base), r, alpha_of(config, name));
      });
    } catch (const Error& error) {
      fail_input(folder.string(), ": ", error.what());
    }
  }
  const std::vector<const Lora*> adapters = adapters_of(module);
  std::set<std::string> unknown(file.names().begin(), file.names().end());
  for (const Lora* adapter : adapters) {
    const double alpha = alpha_of(config, adapter->name());
    if (alpha != adapter->alpha())
      fail_input(config.name(), ": alpha of ", adapter->name(), ": expected ", adapter->alpha(),
                 ", found ", alpha);
    for (const Parameter& factor : adapter->factors()) {
      check_tensor(file, {stored_name(factor), factor.dtype(), whole_shape(factor)});
      unknown.erase(stored_name(factor));
    }
  }
  if (!unknown.empty())
    fail_input(file.path().string(), ": tensor ", quote(*unknown.begin()),
               " is of no LoRA layer of this model");
  for (const Lora* adapter : adapters) {
    for (const Parameter& factor : adapter->factors())
      load_parameter(module, factor, file, stored_name(factor));
  }
  return adapters.size();
}

}  // namespace ringlet::nn
