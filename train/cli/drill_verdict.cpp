#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <fstream>
#include <initializer_list>
#include <sstream>

#include "ringlet/core/error.h"
#include "ringlet/train/checkpoint.h"
#include "ringlet/train/cli/drill_saving.h"
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

/// All that lies below a folder, by its path there.
std::set<std::string> listing(const fs::path& folder) {
  std::set<std::string> names;
  for (const auto& entry : fs::recursive_directory_iterator(folder))
    names.insert(fs::relative(entry.path(), folder).string());
  return names;
}

/// The unexpected names, and the missing ones after "no".
std::string difference(const std::set<std::string>& found, const std::set<std::string>& expected) {
  std::string text;
  for (const std::string& name : found)
    if (!expected.contains(name)) text += " " + name;
  for (const std::string& name : expected)
    if (!found.contains(name)) text += " no " + name;
  return text;
}

/// Whether `text` holds one of the words, not as the beginning of a longer number.
bool contains(const std::string& text, std::initializer_list<std::string> words) {
  return std::any_of(words.begin(), words.end(), [&](const std::string& word) {
    for (std::size_t at = text.find(word); at != text.npos; at = text.find(word, at + 1))
      if (const std::size_t end = at + word.size();
          end == text.size() || text[end] < '0' || text[end] > '9')
        return true;
    return false;
  });
}

/// Whether a rank cannot say anything.
bool is_mute(const DrillTrial& trial, int rank) {
  return trial.processes() && rank == trial.culprit &&
         (trial.fault == Fault::killed || trial.fault == Fault::killed_saving ||
          trial.fault == Fault::stopped);
}

/// Whether a write killed the rank, and a half-written checkpoint was left if it was rank 0. Rank 0
/// removes the checkpoint when another rank dies.
bool was_killed_saving(const DrillTrial& trial, const fs::path& folder) {
  const bool left = text_of(folder / "restarted_at").find(".checkpoint-") != std::string::npos;
  return fs::exists(folder / "killed_at") && left == (trial.culprit == 0);
}

/// The text about the fault that is missing in the stderr of a rank that could still run. It must
/// name the culprit, the step and the activity of this rank. Empty: nothing is missing.
std::string missing_words(const DrillTrial& trial, int rank, const std::string& error) {
  if (!contains(error, {"ringlet: "})) return "ringlet: ";
  // The rank with the broken connections cannot determine the culprit.
  const bool knows = trial.fault != Fault::closed_socket || rank != trial.culprit;
  const std::string culprit = str("rank ", trial.culprit);
  // A rank's own place, after the cause, blames no rank. It counts only for a full disk.
  const std::size_t place = std::min(error.find("; rank "), error.find(" (rank "));
  const std::string cause = trial.fault == Fault::disk_full ? error : error.substr(0, place);
  if (knows && !contains(cause, {culprit})) return culprit;
  // A rank may still be at the end of the previous step when its peers have completed it.
  const bool exact = trial.fault == Fault::nan || hits_checkpoint(trial.fault);
  const std::string step = str("training step ", trial.at);
  // Shared memory still works for a rank with broken connections: its peers may notice it only in
  // the next step.
  const bool later = trial.fault == Fault::closed_socket;
  if (!contains(error, {step, str("training step ", exact ? trial.at : trial.at - 1),
                        str("training step ", later ? trial.at + 1 : trial.at)}))
    return step;
  if (trial.fault == Fault::nan) return contains(error, {"the loss of"}) ? "" : "the loss of";
  // Ranks may enter the checkpoint while rank 0 dies creating its files.
  const bool late = trial.fault == Fault::killed_saving && fails_making(trial.culprit, trial.point);
  const std::string saving = str(step, ", saving a checkpoint");
  if (hits_checkpoint(trial.fault) && !late && !contains(error, {saving})) return saving;
  if (trial.fault == Fault::disk_full)
    return contains(error, {"File too large"}) ? "" : "File too large";
  return contains(error, {"all_reduce", "all_gather", "broadcast", "barrier"}) &&
                 contains(error, {"collective"})
             ? ""
             : "collective";
}

}  // namespace

std::string judge(const DrillOptions& options, const DrillTrial& trial, const DrillOutcome& outcome,
                  const fs::path& folder, const DrillEnd& undisturbed) {
  if (outcome.code != 0)
    return fmt::format("the restarted job ended with {}: {}", outcome.code, outcome.output);
  if (!fs::exists(folder / "fault_at")) return "nothing went wrong";
  if (!fs::exists(folder / "restarted_at")) return "it was not restarted";
  if (outcome.seconds > options.timeout + kPatience)
    return fmt::format("{:.1f} s passed until the ranks had ended", outcome.seconds);
  for (std::size_t rank = 0; rank < outcome.errors.size(); ++rank) {
    if (is_mute(trial, static_cast<int>(rank))) continue;
    if (const std::string word = missing_words(trial, static_cast<int>(rank), outcome.errors[rank]);
        !word.empty())
      return fmt::format("process {} does not say '{}': {}", rank, word, outcome.errors[rank]);
  }
  if (trial.fault == Fault::killed_saving && !was_killed_saving(trial, folder))
    return "it was not killed in the middle of a checkpoint";
  if (const std::string found = orphans(folder); !found.empty())
    return "processes are left:" + found;
  const DrillEnd end = end_of(options, folder);
  if (const std::string wrong = difference(end.files, undisturbed.files); !wrong.empty())
    return "run/ holds, beside what an undisturbed run leaves:" + wrong;
  if (end.parameters != undisturbed.parameters)
    return "its parameters are not those of the undisturbed run";
  return "";
}

DrillEnd end_of(const DrillOptions& options, const fs::path& folder) {
  const fs::path last = train::checkpoint_path(folder / "run", options.steps);
  return {text_of(last / "model.safetensors"), listing(folder / "run")};
}

}  // namespace ringlet::cli
