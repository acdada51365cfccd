// The output of the throughput bench: one row per strategy.
#pragma once

#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "predicted.h"
#include "row.h"

namespace ringlet::bench {

/// The table, Markdown. Speed-ups are relative to base_row(rows); the share of the machine to the
/// row of as many unconnected devices, if there is one.
std::string to_markdown(const std::vector<Row>& rows);
/// For a GPU: the strategies with replayed steps, and those without.
std::string replayed_line(const std::vector<Row>& rows);
/// `settings` are written unchanged, next to the rows. Predictions are written with their rows, and
/// with the link that they use. `machine` is null or describes the GPUs (train/cli/machine.h).
void write_json(const std::filesystem::path& path, const std::vector<Row>& rows,
                const std::map<std::string, std::string>& settings,
                const std::optional<Predicted>& predicted, const nlohmann::ordered_json& machine);

}  // namespace ringlet::bench
