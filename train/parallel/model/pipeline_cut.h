// The cut of an encoder's layers into the stages of a pipeline.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "ringlet/models/losses/loss.h"
#include "ringlet/models/transformer.h"
#include "ringlet/train/parallel/model/mesh.h"
#include "ringlet/train/parallel/model/pipeline_schedule.h"

namespace ringlet::train {

/// The cost of each layer. The first one's includes the embeddings, with `parameters` the last
/// one's what follows the layers. Times are those of the world's rank 0, and every rank of the mesh
/// calls this: the ranks along `tensor` compute together.
std::vector<double> layer_costs(PipelineBalance balance, const models::Loss& loss,
                                models::Transformer& transformer, const Mesh& mesh);

/// The number of layers of each stage, at least 1, with the smallest largest cost. InputError if
/// there are more stages than layers.
std::vector<int> balanced_layers(const std::vector<double>& costs, int stages);

/// The layers of each stage from their numbers. InputError unless `stages` numbers of at least 1
/// have the sum `layers`.
std::vector<models::LayerRange> cut_layers(const std::vector<int>& counts, std::int64_t layers,
                                           int stages);

/// The layer in a parameter's name, "encoder.layer.3.output.dense.weight".
std::optional<std::int64_t> layer_of(const std::string& name);

}  // namespace ringlet::train
