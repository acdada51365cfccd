#include "ringlet/train/resume.h"

#include <string>
#include <vector>

#include "ringlet/core/atomic_folder.h"
#include "ringlet/core/file.h"
#include "ringlet/train/metrics.h"
#include "ringlet/train/trainer_arguments.h"

namespace ringlet::train {
namespace {

// Each rank looks for the latest one, and their folders may be disks of different hosts.
void check_same_on_all_ranks(const std::filesystem::path& checkpoint, const comm::Group& group) {
  const std::vector<std::string> all = group.all_gather_bytes(checkpoint.filename().string());
  for (std::size_t rank = 0; rank < all.size(); ++rank)
    if (all[rank] != all[0])
      fail_input(checkpoint.parent_path().string(), ": rank 0 would go on from ", all[0], ", rank ",
                 rank, " from ", all[rank]);
}

void check_same_run(const std::filesystem::path& folder, const TrainerState& saved,
                    const TrainerState& begun) {
  if (saved.fingerprint != begun.fingerprint)
    fail_input(folder.string(), ": was trained on ", saved.fingerprint, "; now it would be ",
               begun.fingerprint);
  const std::size_t datasets = begun.dataset_losses.size(), sums = saved.dataset_losses.size();
  if (sums != datasets)
    fail_input(folder.string(), ": expected losses of ", datasets, " data sets, found ", sums);
  if (saved.total_steps != begun.total_steps)
    fail_input(folder.string(), ": was to run ", saved.total_steps, " steps; now it would be ",
               begun.total_steps);
  check_same_arguments(folder, saved.arguments, begun.arguments);
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

TrainerState resume(const std::filesystem::path& from, const TrainerState& begun,
                    nn::Module& module, Optimizer& optimizer, const comm::Group& group) {
  std::filesystem::path folder = from;
  if (const auto latest = latest_checkpoint(folder)) folder = *latest;
  check_same_on_all_ranks(folder, group);
  // First, since what another optimizer keeps is not in the files.
  check_same_run(folder, read_trainer_state(folder), begun);
  return load_checkpoint(folder, module, optimizer);
}

}  // namespace ringlet::train
