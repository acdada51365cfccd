#include "ringlet/train/evaluators/evaluator.h"

#include "ringlet/train/encode_together.h"

namespace ringlet::train {

std::vector<std::string> column_texts(const TextDataset& dataset, std::size_t column) {
  std::vector<std::string> texts;
  for (std::size_t row = 0; row < dataset.size(); ++row)
    texts.emplace_back(dataset.texts(row)[column]);
  return texts;
}

Tensor encode_as(TextRole role, const models::SentenceEncoder& model,
                 std::span<const std::string> texts, const models::EncodeOptions& options,
                 const comm::Group& group) {
  models::EncodeOptions chosen = options;
  if (role != TextRole::plain && !chosen.prompt_name) {
    const std::string name = role == TextRole::query ? "query" : "document";
    // Without such a prompt there is none, not even the default one, as in encode_query.
    chosen.prompt_name = model.sentence_config().prompts.contains(name) ? name : "";
  }
  return encode_together(model, texts, chosen, group);
}

}  // namespace ringlet::train
