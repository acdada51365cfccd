#include "ringlet/train/evaluators/evaluator.h"

namespace ringlet::train {

std::vector<std::string> column_texts(const TextDataset& dataset, std::size_t column) {
  std::vector<std::string> texts;
  for (std::size_t row = 0; row < dataset.size(); ++row)
    texts.emplace_back(dataset.texts(row)[column]);
  return texts;
}

}  // namespace ringlet::train
