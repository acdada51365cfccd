// The post-processor of a tokenizer.json.
#pragma once

#include <cstdint>

#include "ringlet/core/io/json_node.h"
#include "ringlet/models/tokenizer/post_processor.h"
#include "ringlet/models/tokenizer/vocabulary.h"

namespace ringlet::models {

/// InputError unless the id is in the vocabulary.
std::int32_t read_id(const JsonNode& node, const Vocabulary& vocabulary);

/// TemplateProcessing, BertProcessing or RobertaProcessing; another is InputError.
PostProcessor read_post_processor(const JsonNode& node, const Vocabulary& vocabulary);

}  // namespace ringlet::models
