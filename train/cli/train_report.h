// The curves of a run, and its lines about the rows that an epoch uses.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <vector>

#include "ringlet/train/report/plot.h"
#include "ringlet/train/step/task.h"

namespace ringlet::cli {

/// Writes an SVG with the losses and, where there are any, the scores of evaluations over steps.
void draw_curves(const std::filesystem::path& metrics, const std::filesystem::path& svg,
                 const std::vector<train::Level>& levels);

/// "an epoch takes 376 steps: 9000 of 9000 rows of nli, 3000 of 3000 of sts"
std::string epoch_plan(const train::TrainingTask& task);

/// "epoch 2 ended with sts: 33.3 % of nli's 9000 rows were used", counted from 1. Empty if the
/// epoch used every row.
std::string epoch_end(const train::TrainingTask& task, std::size_t epoch);

}  // namespace ringlet::cli
