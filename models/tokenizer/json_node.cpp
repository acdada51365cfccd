#include "ringlet/models/tokenizer/json_node.h"

#include <algorithm>

#include "ringlet/core/io/file.h"
#include "ringlet/core/io/file_kind.h"

namespace ringlet::models {

nlohmann::json parse_json(std::string_view text, const std::string& source) {
  check_kind(text, source);
  try {
    return nlohmann::json::parse(text);
  } catch (const nlohmann::json::exception& error) {  // also a number beyond the range of double
    // The library's message after its own tag: "... at line 3, column 7: ...".
    const std::string_view what = error.what();
    const std::size_t start = std::min(what.find(']') + 2, what.size());
    fail_input(source, ": expected JSON: ", shown(what.substr(start), 200));
  }
}

nlohmann::json read_json(const std::filesystem::path& path) {
  return parse_json(MappedFile(path).text(), path.string());
}

}  // namespace ringlet::models
