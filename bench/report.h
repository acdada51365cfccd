// The output of the throughput bench: one row per strategy.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "measurement.h"

#include "ringlet/core/io/json.h"

namespace ringlet::bench {

/// A row of Sentence Transformers' documentation, "Distributed Training", mpnet-base on V100:
/// devices, samples_per_s and speedup. Null for other strategies.
const Json* published_of(const std::string& strategy);

/// The table, Markdown of at most 100 columns, with Sentence Transformers' published rows.
/// Speed-ups are "-" without a row of strategy none.
std::string to_markdown(const std::vector<Row>& rows);
/// All columns, and the phases and memory of each row's step. The share of the machine is relative
/// to the row of as many unconnected devices, if there is one.
std::string to_wide_markdown(const std::vector<Row>& rows);
/// The profiled rows' kernels.
std::string to_profiles(const std::vector<Row>& rows);
/// A line broken for terminals of 100 columns.
std::string wrapped(const std::string& text);
/// For a GPU: the strategies with replayed steps, and those without.
std::string replayed_line(const std::vector<Row>& rows);
/// `settings` are written unchanged, next to the rows.
void write_json(const std::filesystem::path& path, const std::vector<Row>& rows, Json settings);

}  // namespace ringlet::bench
