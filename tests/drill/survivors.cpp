#include "survivors.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <memory>
#include <sstream>
#include <thread>

#include "../train/words.h"
#include "net.h"
#include "ringlet/comm/environment.h"
#include "ringlet/comm/launcher/launcher.h"
#include "ringlet/comm/launcher/signals.h"
#include "ringlet/core/base/error.h"
#include "ringlet/core/io/file.h"
#include "ringlet/models/losses/losses.h"
#include "ringlet/train/checkpoint/checkpoint.h"
#include "ringlet/train/cli/exit_code.h"
#include "ringlet/train/data/draws.h"
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
constexpr std::size_t kEvaluatedRows = 100;

std::int64_t now_us() {
  return std::chrono::duration_cast<std::chrono::microseconds>(Clock::now().time_since_epoch())
      .count();
}

/// Kills this process, after so many microseconds, if not negative; it may end before.
void die_after(std::int64_t us, const fs::path& note) {
  if (us < 0) return;
  std::thread([=] {
    std::this_thread::sleep_for(std::chrono::microseconds(us));
    write_file(note, std::to_string(now_us()));
    std::raise(SIGKILL);
  }).detach();
}

/// How the ranks of a trial train.
struct Method {
  Strategy strategy;
  int redundancy = 0;
  std::string name() const { return str(train::kStrategies(strategy), redundancy > 0 ? "+1" : ""); }
};

train::TrainingArguments arguments_of(const fs::path& output, const Method& method) {
  return {.output_dir = output,
          .max_steps = kUpdates,
          .per_device_train_batch_size = kRowsOfALogicalRank,
          .logical_ranks = kLogicalRanks,
          .learning_rate = 1e-3,
          .max_grad_norm = 1,
          .strategy = method.strategy,
          .redundancy = method.redundancy,
          .logging_steps = 5,
          .eval_strategy = train::EvalStrategy::steps,
          .eval_steps = 5,
          .save_steps = kUpdatesOfACheckpoint};
}

/// A module, and trainers of it.
struct Workload {
  std::shared_ptr<nn::Module> module;
  std::function<std::unique_ptr<train::Trainer>(const train::TrainingArguments&,
                                                const comm::Group&)>
      trainer;
};

/// Each row has a loss of its own.
Workload digits_workload() {
  const auto net = std::make_shared<Net>();
  return {net, [net](const train::TrainingArguments& arguments, const comm::Group& world) {
            const auto collate = [digits = train::make_digits(/*seed=*/1, /*split=*/0, kDigits)](
                                     const train::Rows& rows) {
              return train::collate_digits(digits, rows);
            };
            auto trainer = std::make_unique<train::Trainer>(
                *net, kDigits, collate,
                [net](const train::DigitBatch& batch) { return net->loss(batch); }, arguments,
                world);
            trainer->add_eval_dataset(kEvaluatedRows, collate);
            return trainer;
          }};
}

/// A ranking loss compares the rows of all ranks.
Workload pairs_workload() {
  const models::SentenceEncoder encoder(words::encoder_config(models::Architecture::bert),
                                        words::tokenizer());
  const auto loss = std::make_shared<models::MultipleNegativesRankingLoss>(encoder);
  return {loss, [=](const train::TrainingArguments& arguments, const comm::Group& world) {
            auto trainer =
                std::make_unique<train::Trainer>(*loss, train::Datasets{words::dataset(kDigits)},
                                                 encoder.tokenizer(), arguments, world);
            trainer->add_eval_datasets({words::dataset(kEvaluatedRows)});
            return trainer;
          }};
}

constexpr std::array<std::string_view, 2> kWorkloads{"digits", "pairs"};

/// A trial as its ranks know it.
struct LossyTrial {
  fs::path folder;
  comm::TransportKind transport;
  Method method;
  std::size_t workload;  // of kWorkloads
  /// Microseconds, of each rank, then of each that is started anew; negative: none.
  std::vector<std::int64_t> deaths;
};

/// `goes_on`: in a later world than the first.
void train_in(const comm::Group& world, const LossyTrial& trial, const Workload& workload,
              bool goes_on, std::optional<train::Snapshot>& left) {
  train::TrainingArguments arguments = arguments_of(trial.folder / "run", trial.method);
  if (!left && (goes_on || comm::Environment::read().restart_count > 0))
    arguments.resume_from_checkpoint = train::latest_checkpoint(arguments.output_dir).value_or("");
  const std::unique_ptr<train::Trainer> trainer = workload.trainer(arguments, world);
  bool first = goes_on && world.rank() == 0;
  trainer->add_callback({.on_step_end = [&](const train::StepReport&) {
    if (std::exchange(first, false))
      std::ofstream(trial.folder / "recovered", std::ios::app) << now_us() << '\n';
  }});
  trainer->set_snapshot(std::exchange(left, {}));
  try {
    trainer->train();
  } catch (const Error&) {
    left = trainer->take_snapshot();
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
                   std::string(train::kStrategies(trial.method.strategy)),
                   std::to_string(trial.method.redundancy), std::to_string(trial.workload), deaths},
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

/// The time from each rank's first death to the first step of the world after it, in ms.
void add_recoveries(const LossyTrial& trial, std::vector<double>& ms) {
  std::istringstream lines(text_of(trial.folder / "recovered"));
  const std::vector<std::int64_t> recovered{std::istream_iterator<std::int64_t>(lines), {}};
  for (int rank = 0; rank < kLogicalRanks; ++rank) {
    const std::string death = text_of(trial.folder / str("killed-", rank));
    const auto after = std::ranges::find_if(
        recovered, [&](std::int64_t at) { return !death.empty() && at > std::stoll(death); });
    if (after != recovered.end())
      ms.push_back(static_cast<double>(*after - std::stoll(death)) / 1000);
  }
}

/// Deaths of one or two ranks, and of half of those that take their places.
void draw_deaths(std::uint64_t seed, std::uint64_t trial, double seconds,
                 std::vector<std::int64_t>& deaths) {
  const auto pick = [&](std::uint64_t what, std::uint64_t below) {
    return train::mix64(seed, what, trial) % below;
  };
  const auto moment = static_cast<std::uint64_t>(seconds * 5e5);  // the rest is start and end
  const std::uint64_t victims = 1 + pick(0, kLogicalRanks / 2);
  for (std::uint64_t v = 0; v < victims; ++v) {
    const std::uint64_t rank = pick(1 + v, kLogicalRanks);
    deaths[rank] = static_cast<std::int64_t>(pick(10 + v, moment));
    if (pick(20 + v, 2) == 0)
      deaths[kLogicalRanks + rank] = static_cast<std::int64_t>(pick(30 + v, moment));
  }
}

int count_files(const fs::path& folder, const char* prefix) {
  return static_cast<int>(
      std::ranges::count_if(fs::directory_iterator(folder), [&](const fs::directory_entry& entry) {
        return entry.path().filename().string().starts_with(prefix);
      }));
}

}  // namespace

void train_survivor(const std::vector<std::string>& arguments) {
  LossyTrial trial{arguments.at(0),
                   comm::parse_transport(arguments.at(1)),
                   {train::kStrategies.parse(arguments.at(2)), std::stoi(arguments.at(3))},
                   std::stoul(arguments.at(4)),
                   {}};
  std::istringstream deaths(arguments.at(5));
  for (std::int64_t us = 0; deaths >> us;) trial.deaths.push_back(us);
  const comm::Environment here = comm::Environment::read();
  const int process = here.rank + (here.joins ? kLogicalRanks : 0);
  const auto die_in_time = [&] {
    if (here.restart_count > 0 && !here.joins) return;  // all were started again
    const fs::path note = trial.folder / str("killed-", process);
    if (!fs::exists(note)) die_after(trial.deaths.at(static_cast<std::size_t>(process)), note);
  };
  if (here.joins) die_in_time();  // perhaps while it joins
  std::optional<train::Snapshot> left;
  const auto new_workload = [&] {
    const GeneratorGuard random({.seed = 1});
    return trial.workload == 0 ? digits_workload() : pairs_workload();
  };
  Workload workload = new_workload();
  int worlds = 0;
  const auto rank_main = [&](const comm::Group& world) {
    if (worlds++ == 0 && !here.joins) die_in_time();
    if (worlds == 1 && here.joins) write_file(trial.folder / str("joined-", process), "");
    const bool goes_on = worlds > 1 || here.joins;
    const bool agreed = goes_on && train::agree_on_snapshot(left, *workload.module, world);
    if (goes_on && (!agreed || !left->holders.empty())) workload = new_workload();
    if (!agreed) left.reset();
    if (goes_on && world.rank() == 0)
      std::ofstream(trial.folder / "worlds", std::ios::app) << (agreed ? 'm' : 'c');
    train_in(world, trial, workload, goes_on, left);
  };
  comm::run_from_env(rank_main, {.transport = trial.transport, .timeout = std::chrono::seconds(60)},
                     /*regroups=*/true);
}

int run_survivors(const Survivors& survivors) {
  comm::Signals signals;  // outlives the folder
  const WorkFolder work;
  constexpr std::array kMethods{
      Method{Strategy::ddp},     Method{Strategy::zero1, 1}, Method{Strategy::zero2},
      Method{Strategy::fsdp, 1}, Method{Strategy::ddp},      Method{Strategy::zero2, 1},
      Method{Strategy::zero1},   Method{Strategy::fsdp, 1},  Method{Strategy::fsdp}};
  int failed = 0, number = 0, joined = 0;
  std::ptrdiff_t worlds = 0, from_memory = 0;
  std::array<std::vector<double>, 2> recoveries;  // under ddp, and with redundancy
  const std::vector<std::int64_t> no_death(2 * kLogicalRanks, -1);
  std::array<LossyEnd, kWorkloads.size()> undisturbed;  // of all strategies and transports
  for (const comm::TransportKind transport : survivors.transports) {
    for (int i = 0; i < survivors.trials; ++i, ++number) {
      const std::uint64_t n = survivors.first + static_cast<std::uint64_t>(i);
      LossyTrial trial{work.path() / str("trial-", number), transport,
                       kMethods[n % kMethods.size()],
                       train::mix64(survivors.seed, 40, n) % kWorkloads.size(), no_death};
      LossyEnd& expected = undisturbed.at(trial.workload);
      if (expected.digests.empty()) {
        expected = run_trial({work.path() / str("undisturbed-", trial.workload),
                              transport,
                              {Strategy::ddp},
                              trial.workload,
                              no_death});
        RINGLET_CHECK(expected.code == 0 && !expected.digests.empty(),
                      "[drill] the undisturbed run ended with ", expected.code, ": ",
                      expected.output);
      }
      draw_deaths(survivors.seed, n, expected.seconds, trial.deaths);
      const LossyEnd end = run_trial(trial);
      const std::string wrong = end.code != 0 ? str("code ", end.code, ": ", end.output)
                                : end.digests != expected.digests ? "other files: " + end.output
                                                                  : "";
      failed += wrong.empty() ? 0 : 1;
      if (trial.method.strategy == Strategy::ddp)
        add_recoveries(trial, recoveries[0]);
      else if (trial.method.redundancy > 0)
        add_recoveries(trial, recoveries[1]);
      const std::string later = text_of(trial.folder / "worlds");
      const std::ptrdiff_t remembered = std::ranges::count(later, 'm');
      worlds += std::ssize(later);
      from_memory += remembered;
      const int joins = count_files(trial.folder, "joined-");
      joined += joins;
      fmt::print(
          "{:4} {:5} {:7} {:6} {} killed, {} joined, {} of {} worlds from memory: {:.1f} s, {}\n",
          number, comm::name(transport), trial.method.name(), kWorkloads[trial.workload],
          count_files(trial.folder, "killed-"), joins, remembered, later.size(), end.seconds,
          wrong.empty() ? "ok" : wrong);
      std::fflush(stdout);
      fs::remove_all(trial.folder);
      if (const int signal = signals.next(); signal != 0)
        throw cli::Interrupted(signal, comm::signal_name(signal));
    }
  }
  for (std::vector<double>& ms : recoveries) {
    std::ranges::sort(ms);
    const auto quantile = [&](double q) {
      return ms[static_cast<std::size_t>(q * static_cast<double>(ms.size() - 1))];
    };
    if (!ms.empty())
      fmt::print("from a death to the next update, {}: {} times, median {:.0f} ms, p99 {:.0f} ms\n",
                 &ms == recoveries.data() ? "ddp" : "redundancy", ms.size(), quantile(0.5),
                 quantile(0.99));
  }
  fmt::print("{} trials, {} ranks joined again, {} of {} later worlds from memory, {} failed\n",
             number, joined, from_memory, worlds, failed);
  return failed;
}

}  // namespace ringlet::drill
