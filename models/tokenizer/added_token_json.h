// An added token as stored in tokenizer.json and tokenizer_config.json.
#pragma once

#include "ringlet/models/tokenizer/added_tokens.h"
#include "ringlet/models/tokenizer/json_node.h"

namespace ringlet::models {

/// All fields except the id; `special` is the default of that field.
AddedToken read_added_token(const JsonNode& node, bool special = false);

/// Names the other keys of the object.
void name_unknown_of_token(const JsonNode& node, std::vector<std::string>& names);

}  // namespace ringlet::models
