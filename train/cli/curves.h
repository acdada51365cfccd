// Draws what metrics.jsonl says.
#pragma once

#include <filesystem>
#include <vector>

#include "ringlet/train/report/plot.h"

namespace ringlet::cli {

/// Writes an SVG with the losses and, where there are any, the scores of evaluations over steps.
void draw_curves(const std::filesystem::path& metrics, const std::filesystem::path& svg,
                 const std::vector<train::Level>& levels);

}  // namespace ringlet::cli
