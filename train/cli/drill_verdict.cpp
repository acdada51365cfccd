#include <fmt/format.h>

#include <fstream>
#include <sstream>

#include "ringlet/core/error.h"
#include "ringlet/train/checkpoint.h"
#include "ringlet/train/cli/drill_trial.h"

namespace ringlet::cli {
namespace {

namespace fs = std::filesystem;

/// Ranks that can still run must have ended this long after the deadline of a collective.
constexpr double kPatience = 5;

/// Processes that still run for this trial.
std::string orphans(const fs::path& folder) {
  std::string found;
  for (const auto& process : fs::directory_iterator("/proc")) {
    std::ifstream file(process.path() / "cmdline");
    std::stringstream text;
    text << file.rdbuf();
    if (text.str().find(folder.string()) != std::string::npos)
      found += " " + process.path().filename().string();
  }
  return found;
}

/// Files that were not finished.
std::string leftovers(const fs::path& folder) {
  std::string found;
  for (const auto& entry : fs::recursive_directory_iterator(folder / "run"))
    if (entry.path().filename().string().find(".tmp.") != std::string::npos)
      found += " " + entry.path().string();
  return found;
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

/// What must be said of a fault, by every rank that could still run.
std::string missing_words(const DrillTrial& trial, const std::string& error) {
  std::vector<std::string> words;
  switch (trial.fault) {
    case Fault::disk_full:
      words = {"checkpoint", "File too large"};
      break;
    case Fault::nan:
      words = {concat("rank ", trial.culprit), concat("step ", trial.at)};
      break;
    case Fault::killed:
    case Fault::closed_socket:
      words = {concat("rank ", trial.culprit)};
      break;
    case Fault::stopped:
    case Fault::skipped:
    case Fault::other_op:
    case Fault::other_size:
      words = {concat("rank ", trial.culprit), "collective "};
      break;
    case Fault::none:
      break;
  }
  for (const std::string& word : words)
    if (!contains(error, word)) return word;
  return "";
}

}  // namespace

std::string judge(const DrillOptions& options, const DrillTrial& trial, const DrillOutcome& outcome,
                  const fs::path& folder, const std::string& undisturbed) {
  if (outcome.code != 0)
    return fmt::format("the restarted job ended with {}: {}", outcome.code, outcome.output);
  if (!fs::exists(folder / "fault_at")) return "nothing went wrong";
  if (!fs::exists(folder / "restarted_at")) return "it was not restarted";
  if (outcome.seconds > options.timeout + kPatience)
    return fmt::format("{:.1f} s passed until the ranks had ended", outcome.seconds);
  for (std::size_t rank = 0; rank < outcome.errors.size(); ++rank) {
    const bool dead = trial.processes() && static_cast<int>(rank) == trial.culprit &&
                      (trial.fault == Fault::killed || trial.fault == Fault::stopped);
    if (dead) continue;
    // Whose own connections broke cannot know who is to blame, but must say what it saw.
    if (trial.fault == Fault::closed_socket && static_cast<int>(rank) == trial.culprit) {
      if (!contains(outcome.errors[rank], "ringlet: ")) return fmt::format("rank {} is mute", rank);
      continue;
    }
    if (const std::string word = missing_words(trial, outcome.errors[rank]); !word.empty())
      return fmt::format("process {} does not say '{}': {}", rank, word, outcome.errors[rank]);
  }
  if (const std::string found = orphans(folder); !found.empty())
    return "processes are left:" + found;
  if (const std::string found = leftovers(folder); !found.empty()) return "files are left:" + found;
  const fs::path last = train::checkpoint_path(folder / "run", options.steps);
  if (text_of(last / "model.safetensors") != undisturbed)
    return "its parameters are not those of the undisturbed run";
  return "";
}

}  // namespace ringlet::cli
