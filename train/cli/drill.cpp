// `ringlet drill`: makes ranks fail in every way known here and watches how the others take it.
#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <iostream>
#include <memory>
#include <optional>
#include <sstream>

#include "ringlet/comm/launcher/launcher.h"
#include "ringlet/core/atomic_folder.h"
#include "ringlet/core/file.h"
#include "ringlet/train/checkpoint.h"
#include "ringlet/train/cli/commands.h"
#include "ringlet/train/cli/drill_rank.h"
#include "ringlet/train/cli/exit.h"
#include "ringlet/train/data/hash.h"

namespace ringlet::cli {
namespace {

namespace fs = std::filesystem;
using comm::TransportKind;

/// Ranks that can still run must have ended this long after the deadline of a collective.
constexpr double kPatience = 5;

struct Options {
  int trials = 10;
  std::vector<std::string> transports{"shm", "gloo"};
  std::vector<std::string> faults;
  int ranks = 3;
  std::int64_t steps = 8;
  double timeout = 3;
  std::uint64_t seed = 1;
  bool keep = false;
  // Of a rank that the drill starts.
  std::string rank_folder, fault = "none";
  int culprit = 0;
  std::int64_t at = 0;
};

/// A folder that goes when the drill ends.
class WorkFolder {
 public:
  explicit WorkFolder(bool keep) : keep_(keep) {
    std::string name = (fs::temp_directory_path() / "ringlet-drill-XXXXXX").string();
    if (!mkdtemp(name.data())) fail_input(name, ": cannot make a folder");
    path_ = name;
  }
  ~WorkFolder() {
    std::error_code ignored;
    if (!keep_) fs::remove_all(path_, ignored);
  }
  WorkFolder(const WorkFolder&) = delete;
  WorkFolder& operator=(const WorkFolder&) = delete;
  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
  bool keep_;
};

struct Trial {
  TransportKind transport;
  Fault fault;
  int culprit;
  std::int64_t at;
  bool processes() const { return transport != TransportKind::thread; }
};

/// What one trial left behind.
struct Outcome {
  int code;
  std::string output;               // of the launcher
  std::vector<std::string> errors;  // stderr of each process's first attempt
  double seconds = 0;               // from the fault to the restart
};

std::string text_of(const fs::path& file) { return fs::exists(file) ? read_file(file) : ""; }

Outcome run_trial(const Options& options, const Trial& trial, const fs::path& folder) {
  const int processes = trial.processes() ? options.ranks : 1;
  comm::LauncherOptions launch;
  launch.command = {fs::read_symlink("/proc/self/exe").string(),
                    "drill",
                    "--rank-folder",
                    folder.string(),
                    "--transport",
                    std::string(name(trial.transport)),
                    "--fault",
                    std::string(name(trial.fault)),
                    "--culprit",
                    std::to_string(trial.culprit),
                    "--at",
                    std::to_string(trial.at),
                    "--steps",
                    std::to_string(options.steps),
                    "--ranks",
                    std::to_string(options.ranks),
                    "--timeout",
                    std::to_string(options.timeout)};
  launch.nproc_per_node = processes;
  launch.max_restarts = trial.fault == Fault::none ? 0 : 1;
  launch.log_dir = folder / "logs";
  launch.grace = std::chrono::seconds(1);
  launch.pin = false;
  fs::create_directories(folder);
  std::ostringstream out, err;
  Outcome outcome{comm::run_launcher(launch, out, err).code, "", {}, 0};
  outcome.output = out.str() + err.str();
  for (int rank = 0; rank < processes; ++rank)
    outcome.errors.push_back(
        text_of(folder / "logs" / "attempt_0" / concat("rank_", rank) / "stderr.log"));
  if (const fs::path fault = folder / "fault_at", restart = folder / "restarted_at";
      fs::exists(fault) && fs::exists(restart))
    outcome.seconds =
        std::chrono::duration<double>(fs::last_write_time(restart) - fs::last_write_time(fault))
            .count();
  return outcome;
}

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
std::string missing_words(const Trial& trial, const std::string& error) {
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

/// Empty, or what was wrong.
std::string judge(const Options& options, const Trial& trial, const Outcome& outcome,
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

/// The end of the same training without a fault, as bytes.
std::string undisturbed_run(const Options& options, TransportKind transport,
                            const fs::path& folder) {
  const Outcome outcome = run_trial(options, {transport, Fault::none, 0, 0}, folder);
  const fs::path last = train::checkpoint_path(folder / "run", options.steps);
  const std::string model = text_of(last / "model.safetensors");
  RINGLET_CHECK(outcome.code == 0 && !model.empty(), "[drill] the undisturbed run ended with ",
                outcome.code, ": ", outcome.output, outcome.errors[0]);
  return model;
}

std::vector<Fault> faults_of(const Options& options, TransportKind transport) {
  const std::vector<Fault> possible = all_faults(transport != TransportKind::thread);
  if (options.faults.empty()) return possible;
  std::vector<Fault> chosen;
  for (const std::string& text : options.faults)
    if (const Fault fault = parse_fault(text);
        std::find(possible.begin(), possible.end(), fault) != possible.end())
      chosen.push_back(fault);
  return chosen;
}

/// Which fault, where and when: a function of the seed and the trial's number.
Trial draw(const Options& options, TransportKind transport, const std::vector<Fault>& faults,
           int number) {
  const auto n = static_cast<std::size_t>(number);
  const auto pick = [&](std::uint64_t what, std::uint64_t below) {
    return train::mix64(options.seed, what, n) % below;
  };
  Trial trial{transport, faults[n % faults.size()],
              static_cast<int>(pick(1, static_cast<std::uint64_t>(options.ranks))),
              1 + static_cast<std::int64_t>(pick(2, static_cast<std::uint64_t>(options.steps)))};
  if (trial.fault == Fault::disk_full) trial.culprit = 0;  // who writes
  // The last step has a checkpoint, but no collective behind it to notice who is gone.
  if (trial.fault != Fault::disk_full) trial.at = std::min(trial.at, options.steps - 1);
  return trial;
}

int drill(const Options& options) {
  const WorkFolder work(options.keep);
  int failed = 0, number = 0;
  for (const std::string& text : options.transports) {
    const TransportKind transport = comm::parse_transport(text);
    const std::vector<Fault> faults = faults_of(options, transport);
    if (faults.empty()) continue;
    const std::string undisturbed =
        undisturbed_run(options, transport, work.path() / ("undisturbed-" + text));
    for (int i = 0; i < options.trials; ++i, ++number) {
      const Trial trial = draw(options, transport, faults, i);
      const fs::path folder = work.path() / concat("trial-", number);
      const Outcome outcome = run_trial(options, trial, folder);
      const std::string wrong = judge(options, trial, outcome, folder, undisturbed);
      failed += wrong.empty() ? 0 : 1;
      fmt::print("{:4} {:6} {:13} rank {} step {}: {:.1f} s, {}\n", number, text, name(trial.fault),
                 trial.culprit, trial.at, outcome.seconds, wrong.empty() ? "ok" : wrong);
      std::fflush(stdout);
      if (wrong.empty() && !options.keep) fs::remove_all(folder);
    }
  }
  fmt::print("{} trials, {} failed\n", number, failed);
  return failed == 0 ? 0 : 1;
}

DrillRank rank_of(const Options& options) {
  return {options.rank_folder,
          parse_fault(options.fault),
          options.culprit,
          options.at,
          options.steps,
          options.timeout,
          comm::parse_transport(options.transports.at(0)),
          options.ranks};
}

}  // namespace

void add_drill(CLI::App& app) {
  CLI::App* command = app.add_subcommand(
      "drill", "Make ranks fail at random steps and see that all end well, and restart");
  const auto options = std::make_shared<Options>();
  command->add_option("--trials", options->trials, "Faults for each transport")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  command->add_option("--transport", options->transports, "thread, shm, gloo")
      ->delimiter(',')
      ->capture_default_str();
  command
      ->add_option("--faults", options->faults,
                   "killed, stopped, closed_socket, skipped, other_op, other_size, nan, "
                   "disk_full (default: all)")
      ->delimiter(',');
  command->add_option("--ranks", options->ranks, "Ranks of each training")
      ->check(CLI::Range(2, 64))
      ->capture_default_str();
  command->add_option("--steps", options->steps, "Steps of each training")
      ->check(CLI::Range(2, 1000))
      ->capture_default_str();
  command->add_option("--timeout", options->timeout, "Seconds that a collective waits")
      ->check(CLI::Range(0.5, 600.0))
      ->capture_default_str();
  command->add_option("--seed", options->seed, "Draws who fails when")->capture_default_str();
  command->add_flag("--keep", options->keep, "Leave the trials' folders");
  // Hidden: the drill starts its ranks with these.
  for (auto [text, value] :
       {std::pair("--rank-folder", &options->rank_folder), std::pair("--fault", &options->fault)})
    command->add_option(text, *value)->group("");
  command->add_option("--culprit", options->culprit)->group("");
  command->add_option("--at", options->at)->group("");
  command->callback([options] {
    if (!options->rank_folder.empty()) return run_drill_rank(rank_of(*options));
    if (const int code = drill(*options); code != 0) throw Exit{code};
  });
}

}  // namespace ringlet::cli
