#include "ringlet/train/checkpoint/resume.h"

#include <string>
#include <vector>

#include "ringlet/core/base/quote.h"
#include "ringlet/core/io/atomic_folder.h"
#include "ringlet/core/io/file.h"
#include "ringlet/train/checkpoint/checkpoint_state.h"
#include "ringlet/train/report/metrics.h"

namespace ringlet::train {
namespace {

// Each rank searches for the latest one, and their folders may be on disks of different hosts.
void check_same_on_all_ranks(const std::filesystem::path& checkpoint, const comm::Group& group) {
  const std::vector<std::string> all = group.all_gather_bytes(checkpoint.filename().string());
  for (std::size_t rank = 0; rank < all.size(); ++rank)
    if (all[rank] != all[0])
      fail_input(checkpoint.parent_path().string(), ": rank 0 would go on from ", all[0], ", rank ",
                 rank, " from ", all[rank]);
}

}  // namespace

void check_same_arguments(const std::filesystem::path& checkpoint, const UpdateArguments& saved,
                          const UpdateArguments& wanted) {
  UpdateArguments all = wanted;
  all.insert(saved.begin(), saved.end());
  const auto text = [](const UpdateArguments& of, const std::string& name) {
    const auto found = of.find(name);
    return found == of.end() ? "none" : found->second;
  };
  std::string differences;
  for (const auto& [name, value] : all)
    if (const std::string was = text(saved, name), is = text(wanted, name); was != is)
      differences += str(differences.empty() ? "" : "; ", shown(name), ' ', shown(was, 200),
                         ", now ", shown(is, 200));
  if (!differences.empty()) fail_input(checkpoint.string(), ": was trained with ", differences);
}

namespace {

/// Unsigned: a damaged file may contain numbers of any size.
std::uint64_t steps_of(const std::vector<TrainerState::LossSum>& losses) {
  std::uint64_t steps = 0;
  for (const TrainerState::LossSum& loss : losses) steps += static_cast<std::uint64_t>(loss.steps);
  return steps;
}

/// Whether `step` steps end at `position`. Both may be wrong: the loop ends by the step.
bool ends_at(std::int64_t step, Position position, const BegunRun& begun) {
  if (position.step >= begun.steps_per_epoch(position.epoch)) return false;
  auto steps = static_cast<std::int64_t>(position.step);
  for (std::size_t epoch = 0; epoch < position.epoch && steps <= step; ++epoch)
    steps += static_cast<std::int64_t>(begun.steps_per_epoch(epoch));
  return steps == step;
}

void check_same_run(const std::filesystem::path& folder, const TrainerState& saved,
                    const BegunRun& begun) {
  check_same_arguments(folder, saved.arguments, begun.state.arguments);
  const std::string file = (folder / checkpoint::kState).string();
  const auto expect = [&](const char* name, auto expected, auto found) {
    if (found != expected) fail_input(file, ": ", name, ": expected ", expected, ", found ", found);
  };
  if (saved.step > begun.total_steps)
    fail_input(file, ": step: expected at most ", begun.total_steps, ", found ", saved.step);
  const Position& at = saved.position;
  if (!ends_at(saved.step, at, begun))
    fail_input(file, ": step ", saved.step, " is not step ", at.step, " of epoch ", at.epoch,
               " (step_in_epoch, epoch), each counted from 0");
  const auto step = static_cast<std::uint64_t>(saved.step);
  expect("generator's seed", begun.state.generator.seed, saved.generator.seed);
  expect("generator's step", step, saved.generator.step);
  expect("steps of run_loss", saved.step, saved.run_loss.steps);
  expect("steps of epoch_loss", static_cast<std::int64_t>(at.step), saved.epoch_loss.steps);
  if (saved.loss.steps > saved.step)
    fail_input(file, ": steps of loss: expected at most ", saved.step, ", found ",
               saved.loss.steps);
  if (saved.best && saved.best->step > saved.step)
    fail_input(file, ": best_global_step: expected at most ", saved.step, ", found ",
               saved.best->step);
  const std::size_t datasets = begun.state.dataset_losses.size();
  expect("number of dataset_losses", datasets, saved.dataset_losses.size());
  expect("number of dataset_run_losses", datasets, saved.dataset_run_losses.size());
  if (datasets == 0) return;
  expect("steps of dataset_losses", static_cast<std::uint64_t>(saved.loss.steps),
         steps_of(saved.dataset_losses));
  expect("steps of dataset_run_losses", step, steps_of(saved.dataset_run_losses));
}

}  // namespace

void prepare_output(const std::filesystem::path& output, std::int64_t step) {
  make_folders(output);
  remove_unfinished_checkpoints(output);
  remove_unfinished(output, [](const std::string& name) { return name == kMetrics; });
  remove_unfinished(output / "eval",
                    [](const std::string& name) { return name.ends_with(".csv"); });
  for (const std::filesystem::path& path : list_folder(output / "eval"))
    if (path.extension() == ".csv") trim_csv(path, step);
}

TrainerState resume(const std::filesystem::path& from, const BegunRun& begun, nn::Module& module,
                    Optimizer& optimizer, const comm::Group& group) {
  std::filesystem::path folder = from;
  if (const auto latest = latest_checkpoint(folder)) folder = *latest;
  check_same_on_all_ranks(folder, group);
  // First, because the files lack the moments of another optimizer.
  const TrainerState saved = read_trainer_state(folder);
  check_same_run(folder, saved, begun);
  const auto best_dir = [&](const BestModel& best) {
    return (folder / ".." / best.output_dir).lexically_normal();
  };
  if (begun.loads_best && saved.best)
    if (const auto best = checkpoint_path(best_dir(*saved.best), saved.best->step);
        !folder_exists(best))
      fail_input(best.string(), ": the best model's checkpoint is missing");
  TrainerState state = load_checkpoint(folder, module, optimizer);
  if (state.best)
    state.best->output_dir = std::filesystem::proximate(best_dir(*state.best), begun.output_dir);
  return state;
}

}  // namespace ringlet::train
