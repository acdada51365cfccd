#include "ringlet/train/evaluators/encode_together.h"

#include <algorithm>
#include <cmath>
#include <string_view>
#include <unordered_map>

#include "ringlet/comm/rows.h"
#include "ringlet/core/base/quote.h"
#include "ringlet/train/data/loader.h"

namespace ringlet::train {

std::optional<std::size_t> row_not_finite(const Tensor& table) {
  const std::span values(table.data<float>(), static_cast<std::size_t>(table.numel()));
  const auto bad = std::ranges::find_if_not(values, [](float x) { return std::isfinite(x); });
  if (bad == values.end()) return std::nullopt;
  return static_cast<std::size_t>(bad - values.begin()) / static_cast<std::size_t>(table.size(1));
}

DealtTexts deal_texts(std::span<const std::string> texts, std::size_t parts) {
  DealtTexts dealt;
  std::vector<std::int64_t> bytes;  // (distinct)
  std::unordered_map<std::string_view, std::size_t> known;
  for (std::size_t i = 0; i < texts.size(); ++i) {
    const auto [entry, is_new] = known.emplace(texts[i], dealt.places.size());
    if (is_new) {
      dealt.places.emplace_back();
      bytes.push_back(static_cast<std::int64_t>(texts[i].size()));
    }
    dealt.places[entry->second].push_back(i);
  }
  dealt.parts = deal_rows(bytes, parts);
  return dealt;
}

namespace {

/// encode_together on several ranks.
Tensor encode_shares(const models::SentenceEncoder& model, std::span<const std::string> texts,
                     const models::EncodeOptions& options, const comm::Group& group) {
  const DealtTexts dealt = deal_texts(texts, static_cast<std::size_t>(group.size()));
  const std::vector<std::size_t>& mine = dealt.parts[static_cast<std::size_t>(group.rank())];
  std::vector<std::string> my_texts;
  for (const std::size_t d : mine) my_texts.push_back(texts[dealt.places[d].front()]);
  const Tensor embeddings = model.encode(my_texts, options);  // (mine, columns)
  const std::int64_t columns = embeddings.size(1);
  Tensor distinct =
      zeros({static_cast<std::int64_t>(dealt.places.size()), columns}, DType::f32, Device{});
  for (std::size_t i = 0; i < mine.size(); ++i)
    distinct[static_cast<std::int64_t>(mine[i])].copy_(embeddings[static_cast<std::int64_t>(i)]);
  comm::all_reduce_filled(group, distinct);
  Tensor all = empty({static_cast<std::int64_t>(texts.size()), columns}, DType::f32, Device{});
  for (std::size_t d = 0; d < dealt.places.size(); ++d)
    for (const std::size_t place : dealt.places[d])
      all[static_cast<std::int64_t>(place)].copy_(distinct[static_cast<std::int64_t>(d)]);
  return all;
}

}  // namespace

Tensor encode_together(const models::SentenceEncoder& model, std::span<const std::string> texts,
                       const models::EncodeOptions& options, const comm::Group& group) {
  const Tensor all = group.size() == 1 ? model.encode(texts, options)
                                       : encode_shares(model, texts, options, group);
  if (const auto row = row_not_finite(all))
    fail_input("the embedding of ", quote(texts[*row]), " is not finite");
  return all;
}

models::EncodeOptions for_role(TextRole role, const models::SentenceEncoder& model,
                               models::EncodeOptions options) {
  if (role == TextRole::plain || options.prompt_name || options.prompt) return options;
  const std::string name = role == TextRole::query ? "query" : "document";
  options.prompt_name = model.sentence_config().prompts.contains(name) ? name : "";
  return options;
}

Tensor encode_as(TextRole role, const models::SentenceEncoder& model,
                 std::span<const std::string> texts, const models::EncodeOptions& options,
                 const comm::Group& group) {
  return encode_together(model, texts, for_role(role, model, options), group);
}

}  // namespace ringlet::train
