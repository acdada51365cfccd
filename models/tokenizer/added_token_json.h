// An added token as stored in tokenizer.json and tokenizer_config.json.
#pragma once

#include "ringlet/core/io/json_node.h"
#include "ringlet/models/tokenizer/added_tokens.h"

namespace ringlet::models {

/// All fields except the id; other keys are noted; `special` is the default of that field.
AddedToken read_added_token(const JsonNode& node, bool special = false);

}  // namespace ringlet::models
