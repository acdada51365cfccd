#include "ringlet/models/hub_cache.h"

#include <cstdlib>
#include <string>
#include <vector>

#include "ringlet/core/io/file.h"

namespace ringlet::models {
namespace fs = std::filesystem;
namespace {

fs::path variable(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

fs::path cache() {
  if (const fs::path hub = variable("HF_HUB_CACHE"); !hub.empty()) return hub;
  if (const fs::path home = variable("HF_HOME"); !home.empty()) return home / "hub";
  const fs::path user = variable("XDG_CACHE_HOME");
  return (user.empty() ? variable("HOME") / ".cache" : user) / "huggingface/hub";
}

}  // namespace

fs::path cached_folder(const fs::path& model) {
  const std::string name = model.string();
  const std::size_t slash = name.find('/');
  const bool is_name = !name.empty() && slash != 0 && !name.starts_with('.') &&
                       (slash == name.npos || name.find('/', slash + 1) == name.npos);
  if (!is_name || folder_exists(model)) return model;
  const std::vector<std::string> names =
      slash == name.npos ? std::vector{"sentence-transformers--" + name, name}
                         : std::vector{name.substr(0, slash) + "--" + name.substr(slash + 1)};
  for (const fs::path& place : {variable("SENTENCE_TRANSFORMERS_HOME"), cache()})
    for (const std::string& each : names) {
      const fs::path folder = place / ("models--" + each);
      if (place.empty() || !path_exists(folder / "refs/main")) continue;
      std::string commit = read_file(folder / "refs/main");
      commit.erase(commit.find_last_not_of(" \n") + 1);
      return folder / "snapshots" / commit;
    }
  return model;
}

}  // namespace ringlet::models
