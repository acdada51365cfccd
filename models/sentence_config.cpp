#include "ringlet/models/sentence_config.h"

#include "ringlet/core/quote.h"
#include "ringlet/models/json.h"

namespace ringlet::models {
namespace {

constexpr const char* kSentenceConfigFile = "config_sentence_transformers.json";

}  // namespace

std::string SentenceConfig::default_prompt() const {
  return default_prompt_name ? prompts.at(*default_prompt_name) : std::string();
}

SentenceConfig read_sentence_config(const std::filesystem::path& folder) {
  const std::filesystem::path path = folder / kSentenceConfigFile;
  SentenceConfig config;
  if (!path_exists(path)) return config;
  const nlohmann::json j = parse_json_file(path);
  const std::string source = path.string();
  const auto prompts = get_or(j, "prompts", nlohmann::json::object(), source);
  if (!prompts.is_object()) fail_input(source, ": 'prompts': expected an object of texts by name");
  for (const auto& [name, text] : prompts.items())
    config.prompts[name] = get_or<std::string>(prompts, name.c_str(), "", source + ": 'prompts'");
  config.similarity_fn_name = get_or(j, "similarity_fn_name", config.similarity_fn_name, source);
  if (const auto found = j.find("default_prompt_name"); found != j.end() && !found->is_null()) {
    config.default_prompt_name = get<std::string>(j, "default_prompt_name", source);
    if (!config.prompts.contains(*config.default_prompt_name))
      fail_input(source, ": 'default_prompt_name': no prompt is named ",
                 quote(*config.default_prompt_name));
  }
  return config;
}

void write_sentence_config(const std::filesystem::path& folder, const SentenceConfig& config) {
  nlohmann::ordered_json j;
  // The oldest release that knows these files; readers only warn about newer ones.
  j["__version__"] = {{"sentence_transformers", "2.7.0"}};
  j["prompts"] = config.prompts;
  j["default_prompt_name"] = nullptr;
  if (config.default_prompt_name) j["default_prompt_name"] = *config.default_prompt_name;
  j["similarity_fn_name"] = config.similarity_fn_name;
  write_file(folder / kSentenceConfigFile, j.dump(2));
}

}  // namespace ringlet::models
