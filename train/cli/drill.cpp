// `ringlet drill`: makes ranks fail in every way known here and watches how the others take it.
#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include <algorithm>
#include <cstdlib>
#include <memory>

#include "ringlet/comm/launcher/signals.h"
#include "ringlet/core/error.h"
#include "ringlet/train/checkpoint.h"
#include "ringlet/train/cli/commands.h"
#include "ringlet/train/cli/drill_saving.h"
#include "ringlet/train/cli/drill_trial.h"
#include "ringlet/train/cli/exit.h"
#include "ringlet/train/cli/exit_code.h"
#include "ringlet/train/cli/number_in.h"
#include "ringlet/train/cli/of_option.h"
#include "ringlet/train/cli/seed.h"
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

/// The end of the same training without a fault.
DrillEnd undisturbed_run(const DrillOptions& options, TransportKind transport,
                         const fs::path& folder) {
  const DrillOutcome outcome = run_trial(options, {transport, Fault::none, 0, 0, 0}, folder);
  RINGLET_CHECK(outcome.code == 0, "[drill] the undisturbed run ended with ", outcome.code, ": ",
                outcome.output, outcome.errors[0]);
  DrillEnd end = end_of(options, folder);
  RINGLET_CHECK(!end.parameters.empty(), "[drill] the undisturbed run left no checkpoint");
  return end;
}

std::vector<Fault> faults_of(const DrillOptions& options, TransportKind transport) {
  const std::vector<Fault> possible = all_faults(transport != TransportKind::thread);
  if (options.faults.empty()) return possible;
  std::vector<Fault> chosen;
  std::string asked;
  for (const std::string& text : options.faults) {
    const Fault fault = parse_fault(text);
    if (std::find(possible.begin(), possible.end(), fault) != possible.end())
      chosen.push_back(fault);
    asked += (asked.empty() ? "" : ",") + text;
  }
  if (chosen.empty())
    fail_input("--faults ", asked, ": nothing to try with --transport ", name(transport),
               ", whose ranks are no processes");
  return chosen;
}

/// Which fault, where and when: a function of the seed and the trial's number.
DrillTrial draw(const DrillOptions& options, TransportKind transport,
                const std::vector<Fault>& faults, int number) {
  const auto n = static_cast<std::size_t>(number);
  const auto pick = [&](std::uint64_t what, std::uint64_t below) {
    return train::mix64(options.seed, what, n) % below;
  };
  const Fault fault = faults[n % faults.size()];
  const int ranks = hits_checkpoint(fault) ? saving_ranks(options.ranks) : options.ranks;
  constexpr std::uint64_t kPoints = 1'000'000;  // as many as its text has
  DrillTrial trial{
      transport, fault, static_cast<int>(pick(1, static_cast<std::uint64_t>(ranks))),
      1 + static_cast<std::int64_t>(pick(2, static_cast<std::uint64_t>(options.steps))),
      static_cast<double>(pick(3, kPoints)) / static_cast<double>(kPoints)};
  if (hits_checkpoint(trial.fault)) {
    trial.at = next_checkpoint(trial.at, options.steps);
  } else {
    // The last step has a checkpoint, but no later collective in which peers notice a lost rank.
    trial.at = std::min(trial.at, options.steps - 1);
  }
  return trial;
}

/// "rank 1 step 4, at 37 % of what it writes"
std::string place_of(const DrillTrial& trial) {
  const std::string place = str("rank ", trial.culprit, " step ", trial.at);
  if (!hits_checkpoint(trial.fault)) return place;
  if (fails_making(trial.culprit, trial.point)) return place + ", making the files";
  return place + fmt::format(", at {:.0f} % of its writes", 100 * trial.point);
}

/// The launcher takes those that come while ranks run; this one those between two trials.
void end_if_told(const comm::Signals& signals) {
  if (const int signal = signals.next(); signal != 0)
    throw Interrupted(signal, comm::signal_name(signal));
}

int drill(const DrillOptions& options) {
  for (const std::string& text : options.transports) {  // before anything runs
    if (comm::parse_transport(text) == TransportKind::nccl)
      fail_input("--transport nccl: is for tensors on GPUs, and a drill's are on a CPU");
    faults_of(options, comm::parse_transport(text));
  }
  const comm::Signals signals;  // goes last: what is still to come finds no folder
  const WorkFolder work(options.keep);
  int failed = 0, number = 0;
  for (const std::string& text : options.transports) {
    const TransportKind transport = comm::parse_transport(text);
    const std::vector<Fault> faults = faults_of(options, transport);
    const DrillEnd undisturbed =
        undisturbed_run(options, transport, work.path() / ("undisturbed-" + text));
    for (int i = 0; i < options.trials; ++i, ++number) {
      const DrillTrial trial = draw(options, transport, faults, i);
      const fs::path folder = work.path() / str("trial-", number);
      const DrillOutcome outcome = run_trial(options, trial, folder);
      const std::string wrong = judge(options, trial, outcome, folder, undisturbed);
      failed += wrong.empty() ? 0 : 1;
      fmt::print("{:4} {:6} {:13} {}: {:.1f} s, {}\n", number, text, name(trial.fault),
                 place_of(trial), outcome.seconds, wrong.empty() ? "ok" : wrong);
      std::fflush(stdout);
      if (wrong.empty() && !options.keep) fs::remove_all(folder);
      end_if_told(signals);
    }
  }
  fmt::print("{} trials, {} failed\n", number, failed);
  return failed == 0 ? 0 : 1;
}

DrillRank rank_of(const DrillOptions& options) {
  return {options.rank_folder, parse_fault(options.fault),
          options.culprit,     options.at,
          options.point,       options.steps,
          options.timeout,     comm::parse_transport(options.transports.at(0)),
          options.ranks};
}

}  // namespace

void add_drill(CLI::App& app) {
  CLI::App* command = app.add_subcommand(
      "drill", "Make ranks fail at random steps and see that all end well, and restart");
  const auto options = std::make_shared<DrillOptions>();
  command->add_option("--trials", options->trials, "Faults for each transport")
      ->check(number_in(1, 1'000'000))
      ->capture_default_str();
  command->add_option("--transport", options->transports, "thread, shm, gloo")
      ->delimiter(',')
      ->check(parsed_by(comm::parse_transport))
      ->capture_default_str();
  command
      ->add_option("--faults", options->faults,
                   "killed, killed_saving, stopped, closed_socket, skipped, other_op, other_size, "
                   "nan, disk_full (default: all)")
      ->delimiter(',');
  command->add_option("--ranks", options->ranks, "Ranks of each training")
      ->check(number_in(2, 64))
      ->capture_default_str();
  command->add_option("--steps", options->steps, "Steps of each training")
      ->check(number_in(2, 1000))
      ->capture_default_str();
  command->add_option("--timeout", options->timeout, "Seconds that a collective waits")
      ->check(number_in(0.5, 600.0))
      ->capture_default_str();
  add_seed(*command, options->seed, "Draws who fails when");
  command->add_flag("--keep", options->keep, "Leave the trials' folders");
  // Hidden: the drill starts its ranks with these.
  for (auto [text, value] :
       {std::pair("--rank-folder", &options->rank_folder), std::pair("--fault", &options->fault)})
    command->add_option(text, *value)->group("");
  command->add_option("--culprit", options->culprit)->group("");
  command->add_option("--at", options->at)->group("");
  command->add_option("--point", options->point)->group("");
  command->callback([options] {
    if (!options->rank_folder.empty()) return run_drill_rank(rank_of(*options));
    if (const int code = drill(*options); code != 0) throw Exit{code};
  });
}

}  // namespace ringlet::cli
