// Makes ranks fail at random steps of a small training. Their peers must end in time and name the
// rank, the step and the collective; the restarted job must end like an undisturbed one. With
// --seconds it runs random programs of collectives instead of trainings.
#include <fmt/format.h>

#include <cstdlib>
#include <sstream>

#include "programs.h"
#include "ringlet/comm/launcher/launcher.h"
#include "ringlet/comm/launcher/signals.h"
#include "ringlet/core/base/error.h"
#include "ringlet/train/cli/command.h"
#include "ringlet/train/cli/exit_code.h"

#include "ringlet/train/data/draws.h"
#include "survivors.h"
#include "trial.h"

namespace ringlet::drill {
namespace {

namespace fs = std::filesystem;
using comm::TransportKind;

struct Options {
  int trials = 10;
  std::vector<std::string> transports{"shm", "gloo"};
  std::vector<std::string> faults;
  std::uint64_t seed = 1;
  Job job = Job::ddp;
  int seconds = 0;
  std::uint64_t first = 0;
  bool survivors = false;
};

Fault fault_named(std::string_view text) {
  return static_cast<Fault>(std::find(kFaults.begin(), kFaults.end(), text) - kFaults.begin());
}

/// The arguments with which the drill starts its ranks.
std::vector<std::string> command_of_rank(const Trial& trial) {
  return {fs::read_symlink("/proc/self/exe").string(),
          "rank",
          trial.folder.string(),
          std::string(name(trial.transport)),
          std::string(trial.name()),
          std::to_string(trial.culprit),
          std::to_string(trial.at),
          std::to_string(trial.point),
          std::string(kJobs(trial.job))};
}

Trial trial_of_rank(char** arguments) {
  return {arguments[0],
          comm::parse_transport(arguments[1]),
          fault_named(arguments[2]),
          std::atoi(arguments[3]),
          std::atoi(arguments[4]),
          std::atof(arguments[5]),
          kJobs.parse(arguments[6])};
}

/// Runs it under the launcher, in this process, with one restart after a fault.
Outcome run_trial(const Trial& trial) {
  fs::create_directories(trial.folder);
  std::ostringstream out, err;
  const comm::JobEnd end = comm::run_launcher({.command = command_of_rank(trial),
                                               .nproc_per_node = trial.processes(),
                                               .max_restarts = trial.fault == Fault::none ? 0 : 1,
                                               .log_dir = trial.folder / "logs",
                                               .grace = std::chrono::seconds(1),
                                               .pin = false},
                                              out, err);
  if (end.signal != 0) throw cli::Interrupted(end.signal, comm::signal_name(end.signal));
  Outcome outcome{end.code, out.str() + err.str(), {}, 0};
  for (int rank = 0; rank < trial.processes(); ++rank)
    outcome.errors.push_back(
        text_of(trial.folder / "logs/attempt_0" / str("rank_", rank) / "stderr.log"));
  const fs::path fault = trial.folder / "fault_at", restart = trial.folder / "restarted_at";
  if (fs::exists(fault) && fs::exists(restart))
    outcome.seconds =
        std::chrono::duration<double>(fs::last_write_time(restart) - fs::last_write_time(fault))
            .count();
  return outcome;
}

/// The end of the same training without a fault.
End undisturbed_run(Job job, TransportKind transport, const fs::path& folder) {
  const Trial trial{.folder = folder, .transport = transport, .job = job};
  const Outcome outcome = run_trial(trial);
  RINGLET_CHECK(outcome.code == 0, "[drill] the undisturbed run ended with ", outcome.code, ": ",
                outcome.output, outcome.errors[0]);
  End end = end_of(trial);
  RINGLET_CHECK(!end.parameters.empty(), "[drill] the undisturbed run left no checkpoint");
  return end;
}

TransportKind cpu_transport(const std::string& text) {
  const TransportKind transport = comm::parse_transport(text);
  if (transport == TransportKind::nccl)
    fail_input("--transport nccl: is for tensors on GPUs, and a drill's are on a CPU");
  return transport;
}

/// The chosen faults that ranks over this transport can have.
std::vector<Fault> faults_of(const Options& options, TransportKind transport) {
  std::vector<Fault> faults;
  for (std::size_t i = 1; i < kFaults.size(); ++i) {
    const auto fault = static_cast<Fault>(i);
    const bool chosen = options.faults.empty() ||
                        std::count(options.faults.begin(), options.faults.end(), kFaults[i]) > 0;
    const Trial trial{.folder = {}, .transport = transport, .fault = fault, .job = options.job};
    if (chosen && trial.possible()) faults.push_back(fault);
  }
  if (faults.empty())
    fail_input("--faults: ranks over ", name(transport), " can have none of these");
  return faults;
}

/// The fault, its rank and its time: a function of the seed and the trial's number.
Trial draw(const Options& options, TransportKind transport, const std::vector<Fault>& faults,
           int number) {
  const auto n = static_cast<std::size_t>(number);
  const auto pick = [&](std::uint64_t what, std::uint64_t below) {
    return train::mix64(options.seed, what, n) % below;
  };
  constexpr std::uint64_t kPoints = 1'000'000;  // as many as its text has
  Trial trial{"",
              transport,
              faults[n % faults.size()],
              static_cast<int>(pick(1, kRanks)),
              1 + static_cast<std::int64_t>(pick(2, kSteps)),
              static_cast<double>(pick(3, kPoints)) / static_cast<double>(kPoints),
              options.job};
  // Checkpoints name the rows of rank 0: with others the job would not go on.
  if (trial.fault == Fault::other_rows) trial.culprit = std::max(trial.culprit, 1);
  // The last step has a checkpoint, but no later collective in which peers notice a lost rank.
  trial.at = trial.saving() ? (trial.at + kSaveSteps - 1) / kSaveSteps * kSaveSteps
                            : std::min(trial.at, kSteps - 1);
  return trial;
}

/// "rank 1 step 4, at 37 % of its writes"
std::string place_of(const Trial& trial) {
  const std::string place =
      str("rank ", trial.culprit, " step ", trial.at,
          trial.of_encoder() ? str(", micro-batch ", trial.micro_batch()) : "");
  if (!trial.saving()) return place;
  if (trial.creating()) return place + ", creating the files";
  return place + fmt::format(", at {:.0f} % of its writes", 100 * trial.point);
}

int run_trials(const Options& options) {
  for (const std::string& text : options.transports)  // before anything runs
    faults_of(options, cpu_transport(text));
  comm::Signals signals;  // outlives the folder
  const WorkFolder work;
  int failed = 0, number = 0;
  for (const std::string& text : options.transports) {
    const TransportKind transport = comm::parse_transport(text);
    const std::vector<Fault> faults = faults_of(options, transport);
    const End undisturbed =
        undisturbed_run(options.job, transport, work.path() / ("undisturbed-" + text));
    for (int i = 0; i < options.trials; ++i, ++number) {
      Trial trial = draw(options, transport, faults, i);
      trial.folder = work.path() / str("trial-", number);
      const Outcome outcome = run_trial(trial);
      const std::string wrong = verdict(trial, outcome, undisturbed);
      failed += wrong.empty() ? 0 : 1;
      fmt::print("{:4} {:6} {:13} {}: {:.1f} s, {}\n", number, text, trial.name(), place_of(trial),
                 outcome.seconds, wrong.empty() ? "ok" : wrong);
      std::fflush(stdout);
      fs::remove_all(trial.folder);
      // The launcher takes signals that come while ranks run; these came between two trials.
      if (const int signal = signals.next(); signal != 0)
        throw cli::Interrupted(signal, comm::signal_name(signal));
    }
  }
  fmt::print("{} trials, {} failed\n", number, failed);
  return failed == 0 ? 0 : 1;
}

int run(const Options& options) {
  if (options.survivors) {
    Survivors survivors{options.seed, options.first, options.trials, {}};
    for (const std::string& text : options.transports)
      survivors.transports.push_back(cpu_transport(text));
    return run_survivors(survivors) == 0 ? 0 : 1;
  }
  if (options.seconds == 0) return run_trials(options);
  Programs programs{options.seed, options.first, std::chrono::seconds(options.seconds), {}};
  for (const std::string& text : options.transports)
    programs.transports.push_back(cpu_transport(text));
  return run_programs(programs) == 0 ? 0 : 1;
}

int parse_and_run(int argc, char** argv) {
  cli::Command app("drill", "Makes ranks fail at random steps: all must end well, and restart");
  Options options;
  app.add("--trials", options.trials, Range{1, 1'000'000}, "Faults for each transport");
  app.add_list("--transport", options.transports, comm::parse_transport, "thread, shm, gloo");
  app.add_list("--faults", options.faults, cli::OneOf{{kFaults.begin() + 1, kFaults.end()}},
               "Some of them (default: all)");
  app.add(
      "--job", options.job, kJobs,
      "What the ranks train: digits under DDP, or a sentence encoder in a pipeline or in slices");
  cli::add_seed(app, options.seed, "Draws the ranks and the steps");
  app.add("--seconds", options.seconds, Range{1, 1'000'000},
          "Runs random programs of collectives for so long, instead of trainings")
      .excludes = {"--trials", "--faults", "--job"};
  app.add("--first", options.first, Range{0, 1'000'000'000},
          "Number of the first program, or of the first trial of --survivors");
  app.add("--survivors", options.survivors,
          "Kills up to half of the ranks at any moment; the others go on in the same processes")
      .excludes = {"--seconds", "--faults", "--job"};
  return cli::parse(app, argc, argv) ? run(options) : 0;
}

}  // namespace
}  // namespace ringlet::drill

int main(int argc, char** argv) {
  using namespace ringlet;
  if (argc == 8 && argv[1] == std::string("survivor"))
    return cli::exit_code("ringlet", [&] {
      drill::train_survivor({argv + 2, argv + argc});
      return 0;
    });
  if (argc == 9 && argv[1] == std::string("rank"))
    return cli::exit_code("ringlet", [&] {
      drill::run_rank(drill::trial_of_rank(argv + 2));
      return 0;
    });
  return cli::exit_code("drill", [&] { return drill::parse_and_run(argc, argv); });
}
