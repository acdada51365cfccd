#include <fmt/format.h>

#include <cstdlib>
#include <fstream>
#include <initializer_list>
#include <sstream>

#include "ringlet/core/base/error.h"
#include "ringlet/core/io/file.h"
#include "ringlet/train/checkpoint/checkpoint.h"
#include "trial.h"

namespace ringlet::drill {
namespace {

namespace fs = std::filesystem;

/// Ranks that can still run must have ended this long after the deadline of a collective.
constexpr std::chrono::seconds kPatience{60};

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

/// The step in which a rank was, by its error; 0 before the first and after the last one.
std::int64_t step_in(const std::string& error) {
  constexpr std::string_view kStep = "training step ";
  const std::size_t at = error.rfind(kStep);
  return at == error.npos ? 0 : std::atoll(error.c_str() + at + kStep.size());
}

/// Whether a rank cannot print anything.
bool is_mute(const Trial& trial, int rank) {
  return rank == trial.culprit && (trial.fault == Fault::killed || trial.fault == Fault::stopped ||
                                   trial.fault == Fault::killed_saving);
}

/// Whether a write killed the rank, and a half-written checkpoint was left if it was rank 0. Rank 0
/// removes the checkpoint when another rank dies.
bool was_killed_saving(const Trial& trial) {
  const bool left =
      text_of(trial.folder / "restarted_at").find(".checkpoint-") != std::string::npos;
  return fs::exists(trial.folder / "killed_at") && left == (trial.culprit == 0);
}

/// The text about the fault that is missing in the stderr of a rank that could still run. It must
/// name the culprit, the step and the activity of this rank. Empty: nothing is missing.
std::string missing_words(const Trial& trial, int rank, const std::string& error) {
  if (!contains(error, {"ringlet: "})) return "ringlet: ";
  // The rank with the broken connections cannot determine the culprit.
  const bool broken = trial.fault == Fault::closed_socket;
  const std::string culprit = str("rank ", trial.culprit);
  // A rank's own place, after the cause, blames no rank. It counts only for a full disk.
  const std::size_t place = std::min(error.find("; rank "), error.find(" (rank "));
  const std::string cause = trial.fault == Fault::disk_full ? error : error.substr(0, place);
  if (!(broken && rank == trial.culprit) && !contains(cause, {culprit})) return culprit;
  // A rank may still be at the end of the previous step when its peers have completed it, or have
  // begun none. Ranks with broken connections may notice it later, also after the last step.
  const std::string step = str("training step ", trial.at);
  const std::int64_t found = step_in(error);
  const bool earlier = trial.fault != Fault::nan && !trial.saving() && found == trial.at - 1;
  const bool later = broken && (found == 0 || found >= trial.at);
  if (!contains(error, {step}) && !earlier && !later) return step;
  if (trial.fault == Fault::nan) return contains(error, {"the loss of"}) ? "" : "the loss of";
  // Ranks may enter the checkpoint while rank 0 dies creating its files.
  const bool late = trial.fault == Fault::killed_saving && trial.creating();
  const std::string saving = step + ", saving a checkpoint";
  if (trial.saving() && !late && !contains(error, {saving})) return saving;
  if (trial.fault == Fault::disk_full)
    return contains(error, {"File too large"}) ? "" : "File too large";
  if (trial.of_encoder()) {
    // Ranks with slices of a layer wait for each other in each product; stages do not.
    const bool same = trial.fault == Fault::other_rows || (trial.job == Job::tensor && !broken);
    const std::string micro = same ? str("micro-batch ", trial.micro_batch()) : "micro-batch";
    return contains(error, {micro}) || (later && contains(error, {"collective"})) ? "" : micro;
  }
  return contains(error, {"all_reduce", "all_gather", "broadcast", "barrier"}) &&
                 contains(error, {"collective"})
             ? ""
             : "collective";
}

}  // namespace

std::string verdict(const Trial& trial, const Outcome& outcome, const End& undisturbed) {
  if (outcome.code != 0)
    return fmt::format("the restarted job ended with {}: {}", outcome.code, outcome.output);
  if (!fs::exists(trial.folder / "fault_at")) return "nothing went wrong";
  // Shared memory still works for a rank with broken connections: ranks may complete the training.
  const auto completed = [&](int rank) {
    return trial.fault == Fault::closed_socket && fs::exists(trial.folder / str("ended_", rank));
  };
  bool restarts = false;
  for (int rank = 0; rank < trial.processes(); ++rank) restarts = restarts || !completed(rank);
  if (restarts != fs::exists(trial.folder / "restarted_at"))
    return restarts ? "it was not restarted" : "it was restarted after its end";
  if (outcome.seconds > std::chrono::duration<double>(kTimeout + kPatience).count())
    return fmt::format("{:.1f} s passed until the ranks had ended", outcome.seconds);
  for (int rank = 0; rank < trial.processes(); ++rank) {
    const std::string& error = outcome.errors[static_cast<std::size_t>(rank)];
    if (completed(rank) || is_mute(trial, rank)) continue;
    if (const std::string word = missing_words(trial, rank, error); !word.empty())
      return fmt::format("process {} does not print '{}': {}", rank, word, error);
  }
  if (trial.fault == Fault::killed_saving && !was_killed_saving(trial))
    return "it was not killed in the middle of a checkpoint";
  if (const std::string found = orphans(trial.folder); !found.empty())
    return "processes are left:" + found;
  const End end = end_of(trial);
  if (const std::string wrong = difference(end.files, undisturbed.files); !wrong.empty())
    return "run/ differs from that of an undisturbed run:" + wrong;
  if (end.parameters != undisturbed.parameters)
    return "its parameters are not those of the undisturbed run";
  return "";
}

End end_of(const Trial& trial) {
  const fs::path run = trial.folder / "run";
  End end{text_of(train::checkpoint_path(run, kSteps) / "model.safetensors"), {}};
  for (const auto& entry : fs::recursive_directory_iterator(run))
    end.files.insert(fs::relative(entry.path(), run).string());
  return end;
}

std::string text_of(const fs::path& file) { return fs::exists(file) ? read_file(file) : ""; }

}  // namespace ringlet::drill
