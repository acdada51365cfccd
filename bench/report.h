// What the throughput bench prints and writes: one row per strategy.
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

/// The table, Markdown. Speed-ups are over base_row(rows); the share of the machine is against the
/// row of as many unconnected devices, if there is one.
std::string to_markdown(const std::vector<Row>& rows);
/// Of a GPU: whose steps were replayed as graphs, and whose were not.
std::string replayed_line(const std::vector<Row>& rows);
/// `settings` are written as they are, beside the rows; what is predicted with
/// the row that it is of, and with the link that it comes from. `machine` is null or what the GPUs
/// are (train/cli/machine.h).
void write_json(const std::filesystem::path& path, const std::vector<Row>& rows,
                const std::map<std::string, std::string>& settings,
                const std::optional<Predicted>& predicted, const nlohmann::ordered_json& machine);

}  // namespace ringlet::bench
