#include "product_tuning.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdlib>

#include "ringlet/models/batch.h"

namespace ringlet::bench {
namespace {

constexpr std::int64_t kSnliTokens = 896;             // of 32 pairs, in the mean
constexpr std::size_t kSnliBuckets = 9;               // nearly all of their batches
constexpr std::int64_t kOther[]{1664, 98304, 12288};  // 32 x 50; 256 x 384; 32 x 384

}  // namespace

Quartiles quartiles(std::vector<double> seconds) {
  std::ranges::sort(seconds);
  const std::size_t last = seconds.size() - 1;
  return {seconds[last / 4], seconds[last / 2], seconds[last - last / 4]};
}

std::size_t fastest(std::span<const Quartiles> algorithms) {
  const auto best = std::ranges::min_element(algorithms, {}, &Quartiles::median);
  const Quartiles& first = algorithms.front();
  const bool faster = best->high < first.low && best->median < (1 - kLeastGain) * first.median;
  return faster ? static_cast<std::size_t>(best - algorithms.begin()) : 0;
}

std::string table_row(std::string_view gpu, std::size_t cublas, std::string_view product,
                      std::span<const std::uint64_t> algorithm) {
  while (!algorithm.empty() && algorithm.back() == 0)
    algorithm = algorithm.first(algorithm.size() - 1);
  return fmt::format("{{\"{}\", {}, \"{}\", {{{{{:#x}}}}}}},\n", gpu, cublas, product,
                     fmt::join(algorithm, ", "));
}

std::vector<std::int64_t> tuned_tokens() {
  std::vector<std::int64_t> tokens;
  for (std::int64_t t = 1; t <= models::kLongestBucket; t = tokens.back() + 1)
    tokens.push_back(models::token_bucket(t));
  std::ranges::stable_sort(tokens, {}, [](std::int64_t t) { return std::abs(t - kSnliTokens); });
  const auto after = tokens.begin() + static_cast<std::ptrdiff_t>(kSnliBuckets);
  std::erase(tokens, kOther[0]);
  tokens.insert(after, std::begin(kOther), std::end(kOther));
  return tokens;
}

}  // namespace ringlet::bench
