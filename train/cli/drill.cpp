// `ringlet drill`: makes ranks fail in every way known here and watches how the others take it.
#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include <algorithm>
#include <cstdlib>
#include <memory>

#include "ringlet/core/error.h"
#include "ringlet/train/checkpoint.h"
#include "ringlet/train/cli/commands.h"
#include "ringlet/train/cli/drill_trial.h"
#include "ringlet/train/cli/exit.h"
#include "ringlet/train/data/hash.h"

namespace ringlet::cli {
namespace {

namespace fs = std::filesystem;
using comm::TransportKind;

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

/// The end of the same training without a fault, as bytes.
std::string undisturbed_run(const DrillOptions& options, TransportKind transport,
                            const fs::path& folder) {
  const DrillOutcome outcome = run_trial(options, {transport, Fault::none, 0, 0}, folder);
  const fs::path last = train::checkpoint_path(folder / "run", options.steps);
  const std::string model = text_of(last / "model.safetensors");
  RINGLET_CHECK(outcome.code == 0 && !model.empty(), "[drill] the undisturbed run ended with ",
                outcome.code, ": ", outcome.output, outcome.errors[0]);
  return model;
}

std::vector<Fault> faults_of(const DrillOptions& options, TransportKind transport) {
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
DrillTrial draw(const DrillOptions& options, TransportKind transport,
                const std::vector<Fault>& faults, int number) {
  const auto n = static_cast<std::size_t>(number);
  const auto pick = [&](std::uint64_t what, std::uint64_t below) {
    return train::mix64(options.seed, what, n) % below;
  };
  DrillTrial trial{
      transport, faults[n % faults.size()],
      static_cast<int>(pick(1, static_cast<std::uint64_t>(options.ranks))),
      1 + static_cast<std::int64_t>(pick(2, static_cast<std::uint64_t>(options.steps)))};
  if (trial.fault == Fault::disk_full) trial.culprit = 0;  // who writes
  // The last step has a checkpoint, but no collective behind it to notice who is gone.
  if (trial.fault != Fault::disk_full) trial.at = std::min(trial.at, options.steps - 1);
  return trial;
}

int drill(const DrillOptions& options) {
  const WorkFolder work(options.keep);
  int failed = 0, number = 0;
  for (const std::string& text : options.transports) {
    const TransportKind transport = comm::parse_transport(text);
    const std::vector<Fault> faults = faults_of(options, transport);
    if (faults.empty()) continue;
    const std::string undisturbed =
        undisturbed_run(options, transport, work.path() / ("undisturbed-" + text));
    for (int i = 0; i < options.trials; ++i, ++number) {
      const DrillTrial trial = draw(options, transport, faults, i);
      const fs::path folder = work.path() / concat("trial-", number);
      const DrillOutcome outcome = run_trial(options, trial, folder);
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

DrillRank rank_of(const DrillOptions& options) {
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
  const auto options = std::make_shared<DrillOptions>();
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
