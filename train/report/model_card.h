// The model card of a trained encoder: README.md in the form of Sentence Transformers.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "ringlet/models/sentence_encoder.h"
#include "ringlet/train/data/dataset.h"

namespace ringlet::train {

struct ModelCard {
  struct Data {
    std::shared_ptr<const TextDataset> dataset;
    std::string name;  // a short one, as metrics have it
    std::string loss;  // the class
  };
  struct Evaluator {
    std::string kind;  // the class
    std::string name;  // of its data; its figures are NAME_…
  };
  std::string base_model = {};  // a folder or "organisation/name"; empty: random weights
  std::vector<Data> train_datasets = {};
  std::vector<Data> eval_datasets = {};
  std::vector<Evaluator> evaluators = {};
  using Texts = std::vector<std::pair<std::string, std::string>>;  // name, value
  Texts arguments = {};                                            // of the training
  Texts changed_arguments = {};                                    // that are not the default
  std::filesystem::path metrics = {};     // metrics.jsonl; empty: no results
  std::optional<std::int64_t> step = {};  // of the model's evaluation; none: the last
};

/// Text for SentenceEncoder::save. It has metadata of the Hugging Face hub, then the model, its
/// data, losses and results. The arguments that differ from their defaults follow.
std::string model_card(const ModelCard& card, const models::SentenceEncoder& model);

}  // namespace ringlet::train
