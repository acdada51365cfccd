#include "ringlet/train/data/kept_input.h"

#include <map>
#include <system_error>
#include <utility>

#include "ringlet/core/base/error.h"

namespace ringlet::train {
namespace {

namespace fs = std::filesystem;

std::map<fs::path, std::string>& kept() {
  static std::map<fs::path, std::string> inputs;
  return inputs;
}

}  // namespace

bool is_read_once(const fs::path& path) {
  // A descriptor may be a regular file, with one position for all readers.
  const std::string name = path.string();
  if (name == "-" || name.starts_with("/dev/std") || name.starts_with("/dev/fd/")) return true;
  if (name.starts_with("/proc/") && name.find("/fd/") != name.npos) return true;
  std::error_code unknown;  // reported when the path is opened
  const fs::file_status status = fs::status(path, unknown);
  return fs::exists(status) && !fs::is_regular_file(status) && !fs::is_directory(status);
}

void keep_input(const fs::path& path, std::string bytes) {
  if (!kept().emplace(path, std::move(bytes)).second)
    fail_input(path == "-" ? kStandardInput : path.string(),
               ": can be read once, but two options name it");
}

void release_kept_inputs() { kept().clear(); }

const std::string* kept_input(const fs::path& path) {
  const auto found = kept().find(path);
  return found == kept().end() ? nullptr : &found->second;
}

}  // namespace ringlet::train
