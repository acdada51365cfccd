// The output of the throughput bench: one row per strategy.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "measurement.h"

namespace ringlet::bench {

/// The table, Markdown. Speed-ups are relative to base_row(rows); the share of the machine to the
/// row of as many unconnected devices, if there is one.
std::string to_markdown(const std::vector<Row>& rows);
/// For a GPU: the strategies with replayed steps, and those without.
std::string replayed_line(const std::vector<Row>& rows);
/// `settings` are written unchanged, next to the rows.
void write_json(const std::filesystem::path& path, const std::vector<Row>& rows,
                nlohmann::ordered_json settings);

}  // namespace ringlet::bench
