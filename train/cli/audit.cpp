// `ringlet audit`: checks the digests of a run, and repeats some of its steps.
#include <fmt/core.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <memory>

#include "ringlet/core/io/atomic_folder.h"
#include "ringlet/core/io/file.h"
#include "ringlet/train/checkpoint/audit.h"
#include "ringlet/train/checkpoint/checkpoint.h"
#include "ringlet/train/cli/commands.h"
#include "ringlet/train/cli/train.h"
#include "ringlet/train/data/draws.h"

namespace ringlet::cli {
namespace {

namespace fs = std::filesystem;
using train::AuditLine;

struct AuditOptions {
  std::string run;
  int steps = 3;
  std::uint64_t seed = 0;
};

/// The latest line with `key`; null without one.
const AuditLine* last_with(const std::vector<AuditLine>& lines, const char* key) {
  const auto found = std::find_if(lines.rbegin(), lines.rend(),
                                  [&](const AuditLine& line) { return line.has(key); });
  return found == lines.rend() ? nullptr : &*found;
}

void check_model(const fs::path& run, const std::vector<AuditLine>& lines) {
  const AuditLine* const line = last_with(lines, "model");
  if (line == nullptr && path_exists(run / kWeights))
    fail_input((run / kWeights).string(), ": no line of ", train::kAudit, " has its digest");
  if (line == nullptr || line->step < last_with(lines, "state")->step) return;  // an older one's
  const std::string found = sha256(MappedFile(run / kWeights).text());
  if (found != line->text_of("model"))
    fail_input((run / kWeights).string(), ": expected digest ",
               line->text_of("model").substr(0, 16), ", found ", found.substr(0, 16));
}

/// `count` random steps with a digest, ascending.
std::vector<std::int64_t> choose(const std::vector<AuditLine>& lines, const AuditOptions& options) {
  std::vector<std::int64_t> steps;
  for (const AuditLine& line : lines)
    if (line.has("state") && line.step > 0) steps.push_back(line.step);
  if (steps.empty()) return {};
  const train::Permutation order(steps.size(), options.seed);
  std::vector<std::int64_t> chosen;
  for (std::size_t i = 0; i < steps.size() && std::ssize(chosen) < options.steps; ++i)
    chosen.push_back(steps[order(i)]);
  std::ranges::sort(chosen);
  return chosen;
}

/// Trains from `begin`, a checkpoint's step or 0, to `end`, in a temporary folder. Compares.
void replay(const fs::path& run, const std::vector<AuditLine>& lines, std::int64_t begin,
            std::int64_t end) {
  const std::string log = (run / train::kAudit).string();
  const AuditLine* const recorded = last_with(lines, "options");
  if (recorded == nullptr) fail_input(log, ": no options of ringlet train to replay with");
  if (recorded->has("read_once"))
    for (const Json& input : recorded->json["read_once"])
      fail_input(log, ": ", input.text(),
                 " was rows in memory or a pipe: a replay cannot read it; ",
                 "--steps 0 checks the rest");
  const AtomicFolder scratch(fs::temp_directory_path() / "ringlet-audit");
  if (begin > 0) fs::copy_file(run / train::kAudit, scratch.path() / train::kAudit);
  Command program("ringlet", "");
  Command& command = program.add_command("train", "");
  TrainOptions options;
  add_train_options(command, options);
  std::vector<const char*> words{"ringlet", "train"};
  for (const Json& word : recorded->json["options"]) words.push_back(word.text().c_str());
  command.run = [&] {
    for (const auto& [name, value] : command.given())
      if (std::ranges::count(kNotReplayed, name))
        fail_input(log, ": ", name, ' ', value, ": expected no such option in a record");
    train::TrainingArguments& arguments = options.arguments;
    arguments.output_dir = scratch.path();
    if (begin > 0) arguments.resume_from_checkpoint = train::checkpoint_path(run, begin);
    if (train::compares_evaluations(arguments) && arguments.metric_for_best_model.empty())
      arguments.metric_for_best_model = "loss";
    arguments.load_best_model_at_end = false;
    arguments.save_strategy = train::SaveStrategy::no;
    arguments.save_steps = 0;
    options.no_progress = true;
    options.replay_to = end;
    train_model(options, command);
  };
  parse(program, static_cast<int>(words.size()), words.data());
  const std::vector<AuditLine> replayed = train::read_audit(scratch.path() / train::kAudit);
  check_replay(lines, replayed);
  if (const std::int64_t step = last_with(replayed, "state")->step; step < end)
    fail_input("step ", end, ": the replay ended after step ", step);
}

void audit(const AuditOptions& options) {
  const fs::path run = options.run;
  if (!path_exists(run / train::kAudit))
    fail_input(run.string(), ": no ", train::kAudit, "; expected the --output of a run with ",
               "--audit-steps");
  try {
    const std::vector<AuditLine> lines = train::read_audit(run / train::kAudit);
    const std::vector<std::int64_t> checkpoints = train::check_checkpoints(run, lines);
    check_model(run, lines);
    std::map<std::int64_t, std::int64_t> replays;  // the last step from each beginning
    for (const std::int64_t step : choose(lines, options)) {
      std::int64_t begin = 0;
      for (const std::int64_t one : checkpoints)
        if (one < step) begin = std::max(begin, one);
      replays[begin] = step;
    }
    std::int64_t steps = 0;
    for (const auto& [begin, end] : replays) {
      replay(run, lines, begin, end);
      steps += end - begin;
    }
    fmt::print("{}: {} lines, {} checkpoints and {} replayed steps are as recorded; digest {}\n",
               run.string(), lines.size(), checkpoints.size(), steps,
               last_with(lines, "state")->digest);
  } catch (const InputError& error) {
    throw Error(error.what());  // the run's, not the user's
  }
}

}  // namespace

void add_audit(Command& program) {
  Command& command =
      program.add_command("audit", "Check a run of train --audit-steps and repeat some of it");
  const auto options = std::make_shared<AuditOptions>();
  command.add("RUN", options->run, "The folder of the run's --output").required = true;
  command.add("--steps", options->steps, Range{0, 1 << 20},
              "Replay up to so many random steps with a digest, from the checkpoints before them");
  add_seed(command, options->seed, "Of their choice");
  command.run = [options] { audit(*options); };
}

}  // namespace ringlet::cli
