#include "ringlet/models/folder.h"

#include <map>
#include <set>

#include "ringlet/core/base/error.h"
#include "ringlet/core/base/quote.h"
#include "ringlet/core/io/file.h"
#include "ringlet/core/io/json_node.h"
#include "ringlet/models/harmless_keys.h"
#include "ringlet/models/modules/after_pooling.h"

namespace ringlet::models {
namespace fs = std::filesystem;
namespace {

constexpr std::int64_t kMaxFeatures = 1 << 16;

/// The module's only input and output here are the embeddings.
void require_embeddings(const JsonNode& j) {
  for (const char* key : {"module_input_name", "module_output_name"})
    j.require(key, "sentence_embedding");
}

void require_width(const JsonNode& j, const char* key, std::int64_t width) {
  const auto value = j.at(key).integer();
  if (value != width)
    fail_input(j.source(), ": ", key, ": expected ", width,
               ", the width of the module before, got ", value);
}

modules::Activation read_activation(const JsonNode& j) {
  const std::string path = j.get_or("activation_function", "torch.nn.modules.activation.Tanh");
  const std::string name = path.substr(path.rfind('.') + 1);
  for (std::size_t i = 0; i < modules::kActivations.all.size(); ++i)
    if (path.starts_with("torch.nn.") && modules::kActivations.all[i] == name)
      return static_cast<modules::Activation>(i);
  fail_input(j.source(), ": activation_function ", quote(path), " is not supported; expected ",
             modules::kActivations.list(), " of torch.nn");
}

using ReadModule = std::shared_ptr<SentenceModule> (*)(const JsonNode&, std::int64_t width);

std::shared_ptr<SentenceModule> read_dense(const JsonNode& j, std::int64_t width) {
  require_width(j, "in_features", width);
  require_embeddings(j);
  const auto out = j.at("out_features").integer();
  if (out < 1 || out > kMaxFeatures)
    fail_input(j.source(), ": out_features: expected 1 to ", kMaxFeatures, ", got ", out);
  const modules::DenseOptions options{.bias = j.get_or("bias", true),
                                      .activation = read_activation(j),
                                      .use_residual = j.get_or("use_residual", false)};
  j.name_unused();
  return std::make_shared<modules::Dense>(width, out, options);
}

std::shared_ptr<SentenceModule> read_layer_norm(const JsonNode& j, std::int64_t width) {
  require_width(j, "dimension", width);
  j.refuse_unused();
  return std::make_shared<modules::LayerNorm>(width);
}

std::shared_ptr<SentenceModule> read_dropout(const JsonNode& j, std::int64_t) {
  const double p = j.get_or("dropout", 0.2);
  if (!(p >= 0 && p < 1))
    fail_input(j.source(), ": dropout: expected 0 or more and less than 1, got ", p);
  j.refuse_unused();
  return std::make_shared<modules::Dropout>(p);
}

std::shared_ptr<SentenceModule> read_normalize(const JsonNode& j, std::int64_t) {
  require_embeddings(j);
  j.name_unused();
  return std::make_shared<modules::Normalize>();
}

/// The modules after the pooling.
const std::map<std::string, ReadModule> kReaders{{"Dense", read_dense},
                                                 {"Dropout", read_dropout},
                                                 {"LayerNorm", read_layer_norm},
                                                 {"Normalize", read_normalize}};

/// Whether a class may be module `i`.
bool fits(std::size_t i, const std::string& type) {
  if (i == kTransformerModule) return type == "Transformer";
  if (i == kPoolingModule) return type == "Pooling";
  return kReaders.contains(type);
}

const char* expected_at(std::size_t i) {
  return i == kTransformerModule ? "Transformer"
         : i == kPoolingModule   ? "Pooling"
                                 : "Dense, Dropout, LayerNorm or Normalize";
}

ModuleEntry read_entry(const fs::path& folder, const JsonNode& module, std::size_t i) {
  const std::string& type = module.at("type").text();
  const std::string name = type.substr(type.rfind('.') + 1);
  if (!type.starts_with("sentence_transformers.") || !fits(i, name))
    fail_input(module.name(), ": ", quote(fits(i, name) ? type : name),
               " is not supported; expected ", expected_at(i), " of Sentence Transformers");
  const std::string& path = module.at("path").text();
  for (const fs::path& part : fs::path(path))
    if (part == ".." || part == "/")
      fail_input(module.name(), ": path ", quote(path), ": expected a folder in this folder");
  return {name, path.empty() ? folder : folder / path};
}

std::shared_ptr<SentenceModule> read_module(const ModuleEntry& entry, std::int64_t width,
                                            Notes& notes) {
  const fs::path path = entry.folder / "config.json";
  // Releases before 6 write none for Normalize.
  const bool optional = entry.type == "Normalize" && !path_exists(path);
  const JsonNode j = optional ? JsonNode(Json::object(), path.string()) : JsonNode(path, &notes);
  const GeneratorGuard undisturbed(default_generator());  // its first weights are replaced
  const auto module = kReaders.at(entry.type)(j, width);
  if (module->parameters().empty()) return module;
  const std::vector<std::string> unused = load_weights(entry.folder, *module);
  if (!unused.empty())
    fail_input((entry.folder / "model.safetensors").string(), ": tensor ", quote(unused.front()),
               " is none of ", entry.type, " with this config.json");
  return module;
}

std::string subfolder(std::size_t i, const std::string& type) { return str(i, '_', type); }

Json list_entry(std::size_t i, const std::string& path, const std::string& type) {
  return {{"idx", i},
          {"name", std::to_string(i)},
          {"path", path},
          {"type", "sentence_transformers.models." + type}};
}

}  // namespace

std::vector<ModuleEntry> read_module_list(const fs::path& list, Notes& notes) {
  const JsonNode modules(list, &notes);
  if (!modules.value().is_array() || modules.size() == 0)
    fail_input(list.string(), ": expected a list of modules");
  std::vector<ModuleEntry> entries;
  std::set<std::string> names;
  for (std::size_t i = 0; i < modules.size(); ++i) {
    const JsonNode module = modules.at(i).named(str("module ", i));
    entries.push_back(read_entry(list.parent_path(), module, i));
    if (const std::string& name = module.at("name").text(); !names.insert(name).second)
      fail_input(module.name(), ": a module before it has the name ", quote(name), ", too");
    module.ignore(kHarmlessModuleKeys);
    module.name_unused();
  }
  if (modules.size() <= kPoolingModule)
    fail_input(list.string(), ": expected Pooling as module 1, the list ends before it");
  return entries;
}

SentenceModules::After read_modules_after(const std::vector<ModuleEntry>& entries,
                                          std::int64_t width, Notes& notes) {
  SentenceModules::After after;
  for (const ModuleEntry& entry : entries) {
    after.push_back(read_module(entry, width, notes));
    width = after.back()->dimension(width);
  }
  return after;
}

void write_module_list(const fs::path& folder, const SentenceModules& modules) {
  Json list{list_entry(kTransformerModule, "", "Transformer"),
            list_entry(kPoolingModule, "1_Pooling", "Pooling")};
  for (std::size_t i = kFirstAfterPooling; const auto& module : modules.after()) {
    const std::string path = subfolder(i, module->kind());
    list.push_back(list_entry(i++, path, module->kind()));
    make_folders(folder / path);
    if (const std::string config = module->to_json(); !config.empty())
      write_file(folder / path / "config.json", config);
  }
  write_file(folder / "modules.json", list.dump(2));
}

void save_all_weights(const fs::path& folder, const SentenceModules& modules) {
  save_weights(folder, *modules.transformer());
  for (std::size_t i = kFirstAfterPooling; const auto& module : modules.after()) {
    const std::string path = subfolder(i++, module->kind());
    if (!module->parameters().empty()) save_weights(folder / path, *module);
  }
}

}  // namespace ringlet::models
