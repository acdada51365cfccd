// The parts of a tokenizer.json that turn text into pieces: normalizer, pre-tokenizer, decoder and
// model. InputError names a part without support here.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "ringlet/core/io/json_node.h"
#include "ringlet/models/tokenizer/tokenizer.h"
#include "ringlet/models/tokenizer/tokenizer_model.h"

namespace ringlet::models {

Normalizer read_normalizer(const JsonNode& node);
Json dump_normalizer(const Normalizer& normalizer);

PreTokenizer read_pre_tokenizer(const JsonNode& node);
Json dump_pre_tokenizer(const PreTokenizer& splitter);

/// Sets the model's cleanup; the decoder must be the counterpart of the pre-tokenizer.
void read_decoder(const JsonNode& node, TokenizerModel& model);
Json dump_decoder(const TokenizerModel& model);

/// The model's own pieces, in the order of their ids.
std::vector<std::string> read_pieces(const JsonNode& model);
/// The model over the first `size` pieces; later ones are added tokens.
std::shared_ptr<const PieceModel> read_piece_model(const JsonNode& model, Vocabulary vocabulary,
                                                   std::int32_t size);
Json dump_piece_model(const PieceModel& model);

/// null if it equals `lowercase`, as in published files.
Json dump_strip_accents(const BertNormalizer& normalizer);

}  // namespace ringlet::models
