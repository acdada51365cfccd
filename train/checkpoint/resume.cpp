#include "ringlet/train/checkpoint/resume.h"

#include <string>
#include <vector>

#include "ringlet/core/base/quote.h"
#include "ringlet/core/io/atomic_folder.h"
#include "ringlet/core/io/file.h"
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
  const std::filesystem::path folder = latest_checkpoint(from).value_or(from);
  check_same_on_all_ranks(folder, group);
  // First, because the files lack the moments of another optimizer.
  const TrainerState saved = read_trainer_state(folder);
  check_same_arguments(folder, saved.arguments, begun.arguments);
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
