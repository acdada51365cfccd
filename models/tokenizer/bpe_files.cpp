#include <sstream>

#include "ringlet/core/base/error.h"
#include "ringlet/core/base/quote.h"
#include "ringlet/core/io/file.h"
#include "ringlet/core/io/file_kind.h"
#include "ringlet/core/io/json_node.h"
#include "ringlet/models/tokenizer/tokenizer_json.h"

namespace ringlet::models {
namespace {

/// Pairs of pieces, one a line. As in transformers, blank lines and "#version" are none; "# #" is a
/// pair.
Json read_merges(const std::filesystem::path& path) {
  Json merges = Json::array();
  std::istringstream lines(read_file(path));
  check_kind(lines.view(), path.string());
  std::size_t number = 0;
  for (std::string line; std::getline(lines, line);) {
    ++number;
    std::istringstream words(line);
    std::string left, right, more;
    if (!(words >> left) || left.starts_with("#version")) continue;
    if (!(words >> right) || words >> more)
      fail_input(path.string(), ":", number, ": expected two pieces, found ", quote(line));
    merges.push_back({left, right});
  }
  return merges;
}

}  // namespace

TokenizerModel read_bpe_files(const std::filesystem::path& vocab,
                              const std::filesystem::path& merges) {
  const Json words{{"type", "ByteLevel"},
                   {"add_prefix_space", false},
                   {"trim_offsets", true},
                   {"use_regex", true}};
  const Json file{
      {"normalizer", nullptr},
      {"pre_tokenizer", words},
      {"decoder", words},
      {"model",
       {{"type", "BPE"}, {"vocab", JsonNode(vocab).value()}, {"merges", read_merges(merges)}}}};
  return parse_tokenizer_json(file.dump(), vocab.string());
}

}  // namespace ringlet::models
