// Any bytes for the JSON lines reader, which must read them or throw InputError.
#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "ringlet/train/data/lines.h"
#include "ringlet/train/data/readers.h"
#include "ringlet/train/data/rows.h"

using namespace ringlet;
using namespace ringlet::train;

namespace {

void read_objects(std::string_view text) try {
  const std::string lines = "{}\n" + std::string(text);  // JSON lines, whatever follows
  const auto rows = open_rows(LineReader(bytes_of(lines), "fuzz"), {});
  while (rows->next()) {
    const std::vector<std::string> names = rows->columns();
    const std::set<std::string> distinct(names.begin(), names.end());
    RINGLET_CHECK(distinct.size() == names.size(), "a key that appears twice");
  }
} catch (const InputError&) {
}

void read_rows(std::string_view text, const char* columns) try {
  ReadOptions options;
  options.columns = columns;
  RINGLET_CHECK(read_dataset(LineReader(bytes_of(text), "fuzz"), options).size() > 0, "no rows");
} catch (const InputError&) {
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  read_objects(text);
  read_rows(text, "");
  read_rows(text, "a=sentence1,b=sentence2");
  return 0;
}
