#include "survivors.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <sstream>
#include <thread>

#include "net.h"
#include "ringlet/comm/environment.h"
#include "ringlet/comm/launcher/launcher.h"
#include "ringlet/comm/launcher/signals.h"
#include "ringlet/core/base/error.h"
#include "ringlet/core/io/file.h"
#include "ringlet/train/checkpoint/checkpoint.h"
#include "ringlet/train/cli/exit_code.h"
#include "ringlet/train/data/hash.h"
#include "ringlet/train/data/synthetic.h"
#include "ringlet/train/trainer.h"
#include "trial.h"

namespace ringlet::drill {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;  // one for all processes of the host
using train::Strategy;

constexpr int kLogicalRanks = 4;
constexpr std::int64_t kUpdates = 25;
constexpr std::int64_t kUpdatesOfACheckpoint = 4;
/// 600 rows are 18 steps of 32 and one of 24.
constexpr std::size_t kRowsOfALogicalRank = 8;

std::int64_t now_us() {
  return std::chrono::duration_cast<std::chrono::microseconds>(Clock::now().time_since_epoch())
      .count();
}

/// Kills this process, after so many microseconds; it may end before.
void die_after(std::int64_t us, const fs::path& note) {
  std::thread([=] {
    std::this_thread::sleep_for(std::chrono::microseconds(us));
    write_file(note, std::to_string(now_us()));
    std::raise(SIGKILL);
  }).detach();
}

train::TrainingArguments arguments_of(const fs::path& output, Strategy strategy) {
  return {.output_dir = output,
          .max_steps = kUpdates,
          .per_device_train_batch_size = kRowsOfALogicalRank,
          .logical_ranks = kLogicalRanks,
          .learning_rate = 1e-3,
          .max_grad_norm = 1,
          .strategy = strategy,
          .logging_steps = 5,
          .eval_strategy = train::EvalStrategy::steps,
          .eval_steps = 5,
          .save_steps = kUpdatesOfACheckpoint};
}

/// A trial as its ranks know it.
struct LossyTrial {
  fs::path folder;
  comm::TransportKind transport;
  Strategy strategy;
  std::vector<std::int64_t> deaths;  // of each rank, in microseconds; negative: none
};

void train_in(const comm::Group& world, const LossyTrial& trial, Net& net, int worlds,
              std::optional<train::Snapshot>& left) {
  const train::Digits digits = train::make_digits(/*seed=*/1, /*split=*/0, kDigits);
  const auto collate = [&](const train::Rows& rows) { return train::collate_digits(digits, rows); };
  train::TrainingArguments arguments = arguments_of(trial.folder / "run", trial.strategy);
  if (!left && (worlds > 1 || comm::Environment::read().restart_count > 0))
    arguments.resume_from_checkpoint = train::latest_checkpoint(arguments.output_dir).value_or("");
  train::Trainer trainer(
      net, kDigits, collate, [&](const train::DigitBatch& batch) { return net.loss(batch); },
      arguments, world);
  trainer.add_eval_dataset(100, collate);
  bool first = worlds > 1 && world.rank() == 0;
  trainer.add_callback({.on_step_end = [&](const train::StepReport&) {
    if (std::exchange(first, false))
      write_file(trial.folder / str("recovered-", worlds), std::to_string(now_us()));
  }});
  trainer.set_snapshot(std::exchange(left, {}));
  try {
    trainer.train();
  } catch (const Error&) {
    left = trainer.take_snapshot();
    throw;
  }
}

/// How the launcher saw a trial end.
struct LossyEnd {
  int code = 0;
  std::string output;
  std::string digests;  // SHA256SUMS of the last checkpoint
  double seconds = 0;
};

LossyEnd run_trial(const LossyTrial& trial) {
  fs::create_directories(trial.folder);
  std::string deaths;
  for (const std::int64_t us : trial.deaths) deaths += str(us, ' ');
  std::ostringstream out, err;
  const auto began = Clock::now();
  const comm::JobEnd end = comm::run_launcher(
      {.command = {fs::read_symlink("/proc/self/exe").string(), "survivor", trial.folder.string(),
                   std::string(comm::name(trial.transport)),
                   std::string(train::kStrategies(trial.strategy)), deaths},
       .nproc_per_node = kLogicalRanks,
       .max_restarts = 2 * kLogicalRanks,
       .min_ranks = kLogicalRanks / 2,
       .grace = std::chrono::seconds(20),
       .pin = false},
      out, err);
  if (end.signal != 0) throw cli::Interrupted(end.signal, comm::signal_name(end.signal));
  const fs::path last = train::checkpoint_path(trial.folder / "run", kUpdates);
  return {end.code, out.str() + err.str(), text_of(last / "SHA256SUMS"),
          std::chrono::duration<double>(Clock::now() - began).count()};
}

/// The time from each death to the first step of the world after it, in ms.
void add_recoveries(const LossyTrial& trial, std::vector<double>& ms) {
  std::vector<std::int64_t> deaths;
  for (std::size_t rank = 0; rank < trial.deaths.size(); ++rank)
    if (const std::string at = text_of(trial.folder / str("killed-", rank)); !at.empty())
      deaths.push_back(std::stoll(at));
  std::ranges::sort(deaths);
  for (std::size_t i = 0; i < deaths.size(); ++i)
    if (const std::string at = text_of(trial.folder / str("recovered-", i + 2)); !at.empty())
      ms.push_back(static_cast<double>(std::stoll(at) - deaths[i]) / 1000);
}

}  // namespace

void train_survivor(const std::vector<std::string>& arguments) {
  LossyTrial trial{arguments.at(0),
                   comm::parse_transport(arguments.at(1)),
                   train::kStrategies.parse(arguments.at(2)),
                   {}};
  std::istringstream deaths(arguments.at(3));
  for (std::int64_t us = 0; deaths >> us;) trial.deaths.push_back(us);
  const int rank = comm::Environment::read().rank;
  std::optional<train::Snapshot> left;
  std::unique_ptr<Net> net;
  int worlds = 0;
  const auto rank_main = [&](const comm::Group& world) {
    if (const auto us = trial.deaths.at(static_cast<std::size_t>(rank)); worlds++ == 0 && us >= 0)
      die_after(us, trial.folder / str("killed-", rank));
    if (!net || !train::agree_on_snapshot(left, *net, world)) {
      const GeneratorGuard random({.seed = 1});
      net = std::make_unique<Net>();
      left.reset();
    }
    train_in(world, trial, *net, worlds, left);
  };
  comm::run_from_env(rank_main, {.transport = trial.transport, .timeout = std::chrono::seconds(60)},
                     /*regroups=*/true);
}

int run_survivors(const Survivors& survivors) {
  comm::Signals signals;  // outlives the folder
  const WorkFolder work;
  // Under fsdp the ranks must divide the logical ones.
  constexpr std::array kStrategiesOfTrials{Strategy::ddp, Strategy::zero1, Strategy::ddp,
                                           Strategy::zero2};
  int failed = 0, number = 0;
  std::vector<double> recoveries;
  const std::vector<std::int64_t> no_death(kLogicalRanks, -1);
  std::string digests;  // of all strategies and transports
  double seconds = 0;
  for (const comm::TransportKind transport : survivors.transports) {
    for (int i = 0; i < survivors.trials; ++i, ++number) {
      const std::uint64_t n = survivors.first + static_cast<std::uint64_t>(i);
      const auto pick = [&](std::uint64_t what, std::uint64_t below) {
        return train::mix64(survivors.seed, what, n) % below;
      };
      LossyTrial trial{work.path() / str("trial-", number), transport,
                       kStrategiesOfTrials[n % kStrategiesOfTrials.size()], no_death};
      if (digests.empty()) {
        const LossyTrial undisturbed{work.path() / "undisturbed", transport, Strategy::ddp,
                                     no_death};
        const LossyEnd end = run_trial(undisturbed);
        RINGLET_CHECK(end.code == 0 && !end.digests.empty(), "[drill] the undisturbed run ended ",
                      "with ", end.code, ": ", end.output);
        digests = end.digests;
        seconds = end.seconds;
      }
      const std::uint64_t victims = 1 + pick(0, kLogicalRanks / 2);
      for (std::uint64_t v = 0; v < victims; ++v)
        trial.deaths[pick(1 + v, kLogicalRanks)] =
            static_cast<std::int64_t>(pick(10 + v, static_cast<std::uint64_t>(seconds * 1e6)));
      const LossyEnd end = run_trial(trial);
      const std::string wrong = end.code != 0            ? str("code ", end.code, ": ", end.output)
                                : end.digests != digests ? "other files: " + end.output
                                                         : "";
      failed += wrong.empty() ? 0 : 1;
      if (trial.strategy == Strategy::ddp) add_recoveries(trial, recoveries);
      fmt::print("{:4} {:5} {:5} {} killed: {:.1f} s, {}\n", number, comm::name(transport),
                 train::kStrategies(trial.strategy), victims, end.seconds,
                 wrong.empty() ? "ok" : wrong);
      std::fflush(stdout);
      fs::remove_all(trial.folder);
      if (const int signal = signals.next(); signal != 0)
        throw cli::Interrupted(signal, comm::signal_name(signal));
    }
  }
  std::ranges::sort(recoveries);
  const auto quantile = [&](double q) {
    return recoveries[static_cast<std::size_t>(q * static_cast<double>(recoveries.size() - 1))];
  };
  if (!recoveries.empty())
    fmt::print("from a death to the next update, ddp: {} times, median {:.0f} ms, p99 {:.0f} ms\n",
               recoveries.size(), quantile(0.5), quantile(0.99));
  fmt::print("{} trials, {} failed\n", number, failed);
  return failed;
}

}  // namespace ringlet::drill
