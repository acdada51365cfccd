// Finds the checkpoints of an output folder by their steps.
#include <map>
#include <string>

#include "ringlet/core/base/quote.h"
#include "ringlet/core/io/atomic_folder.h"
#include "ringlet/core/io/file.h"
#include "ringlet/train/checkpoint/checkpoint.h"
#include "ringlet/train/checkpoint/checkpoint_state.h"

namespace ringlet::train {
namespace {

constexpr std::string_view kPrefix = "checkpoint-";

std::optional<std::int64_t> step_of(const std::filesystem::path& folder) {
  const std::string name = folder.filename().string();
  if (!name.starts_with(kPrefix)) return std::nullopt;
  const auto step = parse_number<std::int64_t>(std::string_view(name).substr(kPrefix.size()));
  return step && *step >= 0 ? step : std::nullopt;
}

using Folders = std::map<std::int64_t, std::filesystem::path>;

/// Folders with a checkpoint's name, either those with a state or those without.
Folders find_folders(const std::filesystem::path& output, bool with_state) {
  Folders found;
  for (const std::filesystem::path& path : list_folder(output))
    if (const auto step = step_of(path); step && folder_exists(path))
      if (path_exists(path / checkpoint::kState) == with_state) found[*step] = path;
  return found;
}

}  // namespace

std::filesystem::path checkpoint_path(const std::filesystem::path& output, std::int64_t step) {
  return output / str(kPrefix, step);
}

std::optional<std::filesystem::path> latest_checkpoint(const std::filesystem::path& output) {
  const Folders all = find_folders(output, true);
  return all.empty() ? std::nullopt : std::optional(all.rbegin()->second);
}

std::vector<std::filesystem::path> later_strays(const std::filesystem::path& output) {
  const Folders all = find_folders(output, true);
  std::vector<std::filesystem::path> strays;
  for (const auto& [step, path] : find_folders(output, false))
    if (all.empty() || step > all.rbegin()->first) strays.push_back(path);
  return strays;
}

void remove_unfinished_checkpoints(const std::filesystem::path& output) {
  remove_unfinished(output, [](const std::string& name) { return step_of(name).has_value(); });
}

void rotate_checkpoints(const std::filesystem::path& output, std::size_t keep,
                        const std::set<std::int64_t>& kept) {
  if (keep == 0) return;
  const Folders all = find_folders(output, true);
  std::size_t left = all.size();
  for (const auto& [step, path] : all) {
    if (left <= keep) return;
    if (kept.contains(step)) continue;
    remove_path(path);
    --left;
  }
}

}  // namespace ringlet::train
