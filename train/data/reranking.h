// Queries, each with documents to put in order.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "ringlet/train/data/file_report.h"
#include "ringlet/train/data/read_options.h"

namespace ringlet::train {

struct RerankingSample {
  std::string query;
  std::vector<std::string> positive, negative;
};

/// Whether a file has the columns of read_reranking.
bool is_reranking(const std::vector<std::string>& columns);

struct RerankingData {
  std::vector<RerankingSample> samples;
  FileReport report;
};

/// Reads JSON lines {"query": TEXT, "positive": [TEXT, …], "negative": [TEXT, …]}; a text alone
/// stands for a list of one. `split` chooses rows as in read_dataset. InputError names the line.
RerankingData read_reranking(const std::filesystem::path& path, const SplitChoice& split = {});

}  // namespace ringlet::train
