// Queries, each with documents to put in order.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace ringlet::train {

struct RerankingSample {
  std::string query;
  std::vector<std::string> positive, negative;
};

/// Whether a file has the columns of read_reranking.
bool is_reranking(const std::vector<std::string>& columns);

/// Reads JSON lines {"query": TEXT, "positive": [TEXT, …], "negative": [TEXT, …]}; a text alone
/// stands for a list of one. InputError names the line.
std::vector<RerankingSample> read_reranking(const std::filesystem::path& path);

}  // namespace ringlet::train
