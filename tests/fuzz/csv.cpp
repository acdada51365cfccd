// Any bytes for the CSV and TSV readers, which must read them or throw InputError.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "ringlet/train/data/csv.h"
#include "ringlet/train/data/readers.h"

using namespace ringlet;
using namespace ringlet::train;

namespace {

void read_records(std::string_view text, Delimited dialect) try {
  CsvReader reader(LineReader(bytes_of(text), "fuzz"), dialect);
  std::size_t last = 0;
  while (reader.next()) {
    RINGLET_CHECK(!reader.fields().empty() && reader.line() > last, "a record without a place");
    last = reader.line();
  }
} catch (const InputError&) {
}

void read_rows(std::string_view text, const char* name) try {
  const TextDataset dataset = read_dataset(LineReader(bytes_of(text), name));
  std::size_t nbytes = 0;
  for (std::size_t row = 0; row < dataset.size(); ++row) {
    for (const std::string_view column : dataset.texts(row)) nbytes += column.size();
  }
  RINGLET_CHECK(nbytes <= text.size(), "more text than was given");
} catch (const InputError&) {
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  read_records(text, Delimited::csv);
  read_records(text, Delimited::tsv);
  read_rows(text, "fuzz.csv");
  read_rows(text, "fuzz.tsv");
  return 0;
}
