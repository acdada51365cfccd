#include "ringlet/models/sentence_config.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "ringlet/core/base/error.h"
#include "ringlet/core/base/names.h"
#include "ringlet/core/base/quote.h"
#include "ringlet/core/io/file.h"
#include "ringlet/core/io/json_node.h"
#include "ringlet/models/harmless_keys.h"

namespace ringlet::models {
namespace {

constexpr const char* kSentenceConfigFile = "config_sentence_transformers.json";

}  // namespace

std::string SentenceConfig::prompt(const std::optional<std::string>& name) const {
  const std::optional<std::string>& chosen = name ? name : default_prompt_name;
  if (!chosen || chosen->empty()) return {};
  if (const auto found = prompts.find(*chosen); found != prompts.end()) return found->second;
  std::string names;
  for (const auto& [known, text] : prompts) names += (names.empty() ? "" : ", ") + quote(known);
  fail_input("prompt name ", quote(*chosen), ": expected ",
             names.empty() ? "none: the folder has no prompts" : "one of " + names);
}

void check_similarity_fn_name(const std::string& name, const std::string& where) {
  constexpr std::array<std::string_view, 4> kSimilarities{"cosine", "dot", "euclidean",
                                                          "manhattan"};
  if (std::ranges::count(kSimilarities, name) == 0)
    fail_input(where, "similarity_fn_name ", quote(name), " is not supported; expected ",
               list_names(kSimilarities));
}

SentenceConfig read_sentence_config(const std::filesystem::path& folder, Notes& notes) {
  const std::filesystem::path path = folder / kSentenceConfigFile;
  SentenceConfig config;
  if (!path_exists(path)) return config;
  const JsonNode j(path, &notes);
  const std::string& source = j.source();
  if (j.has("prompts"))
    for (const auto& [name, text] : j.at("prompts").members())
      config.prompts[name] = text.value().is_null() ? "" : text.text();
  config.similarity_fn_name = j.get_or("similarity_fn_name", config.similarity_fn_name);
  check_similarity_fn_name(config.similarity_fn_name, source + ": ");
  if (j.has("default_prompt_name")) {
    config.default_prompt_name = j.at("default_prompt_name").text();
    if (!config.prompts.contains(*config.default_prompt_name))
      fail_input(source, ": 'default_prompt_name': no prompt is named ",
                 quote(*config.default_prompt_name));
  }
  if (j.has("truncate_dim")) {
    config.truncate_dim = j.at("truncate_dim").integer();
    if (*config.truncate_dim < 1)
      fail_input(source, ": truncate_dim: expected 1 or more, got ", *config.truncate_dim);
  }
  j.require("model_type", "SentenceTransformer");
  j.ignore(kHarmlessSentenceConfigKeys);
  j.name_unused();
  return config;
}

void write_sentence_config(const std::filesystem::path& folder, const SentenceConfig& config) {
  Json j;
  // The oldest release that knows these files; readers only warn about newer ones.
  j["__version__"] = {{"sentence_transformers", "2.7.0"}};
  j["prompts"] = config.prompts;
  j["default_prompt_name"] = nullptr;
  if (config.default_prompt_name) j["default_prompt_name"] = *config.default_prompt_name;
  j["similarity_fn_name"] = config.similarity_fn_name;
  if (config.truncate_dim) j["truncate_dim"] = *config.truncate_dim;
  write_file(folder / kSentenceConfigFile, j.dump(2));
}

}  // namespace ringlet::models
