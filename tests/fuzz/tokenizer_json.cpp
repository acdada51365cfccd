// Any bytes as tokenizer.json, which must load or throw InputError. A tokenizer that loads must
// encode, decode and give the same ids after it is written and read again.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "ringlet/core/base/error.h"
#include "ringlet/models/tokenizer/tokenizer.h"
#include "ringlet/models/tokenizer/tokenizer_json.h"

using namespace ringlet;
using namespace ringlet::models;

namespace {

constexpr std::string_view kTexts[] = {
    "", "The unaffable cat's <mask> [MASK] [SEP]!",
    "caf\u00E9 \u4F60\u597D \u0130\u0301 foo New York", "\xFF\xC0\x80 \xED\xA0\x80",
    "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"};

void check_message(std::string_view message) {
  const bool one_line = message.size() < 400 && message.find('\n') == std::string_view::npos;
  RINGLET_CHECK(one_line, "expected a message of one line: ", message);
}

void read_config(std::string_view text) try {
  read_tokenizer_config({Json::parse(text, "fuzz"), "fuzz"});
} catch (const InputError& error) {
  check_message(error.what());
}

void round_trip(std::string_view text) {
  const Tokenizer tokenizer(read_tokenizer_json({Json::parse(text, "fuzz"), "fuzz"}));
  const std::string written = dump_tokenizer_json(tokenizer.model(), tokenizer.max_length());
  dump_tokenizer_config(tokenizer.model(), tokenizer.max_length());
  const Tokenizer again(read_tokenizer_json({Json::parse(written, "written"), "written"}));
  for (const std::string_view sample : kTexts) {
    const Encoding encoding = tokenizer.encode(sample);
    tokenizer.decode(encoding.ids, false);
    const Encoding repeated = again.encode(sample);
    const bool same = encoding.ids == repeated.ids && encoding.type_ids == repeated.type_ids;
    RINGLET_CHECK(same, "ids differ after writing");
  }
}

void read_tokenizer(std::string_view text) try {
  round_trip(text);
} catch (const InputError& error) {
  check_message(error.what());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  read_config(text);
  read_tokenizer(text);
  return 0;
}
