#include "ringlet/models/tokenizer/json_node.h"

#include <algorithm>

namespace ringlet::models {

nlohmann::json parse_json(std::string_view text, const std::string& source) {
  try {
    return nlohmann::json::parse(text);
  } catch (const nlohmann::json::exception& error) {  // also a number beyond the range of double
    // The library's message after its own tag: "... at line 3, column 7: ...".
    const std::string_view what = error.what();
    const std::size_t start = std::min(what.find(']') + 2, what.size());
    fail_input(source, ": expected JSON: ", shown(what.substr(start), 200));
  }
}

}  // namespace ringlet::models
