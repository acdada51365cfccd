#include "ringlet/train/data/csv.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

using namespace ringlet;
using namespace ringlet::train;

namespace {

using Record = std::vector<std::string>;

std::vector<Record> records(std::string_view text, Delimited dialect = Delimited::csv) {
  CsvReader reader(LineReader(bytes_of(text), "a.csv"), dialect);
  std::vector<Record> all;
  while (reader.next()) all.emplace_back(reader.fields().begin(), reader.fields().end());
  return all;
}

}  // namespace

TEST_CASE("csv: plain records") {
  CHECK(records("a,b\nc,d\n") == std::vector<Record>{{"a", "b"}, {"c", "d"}});
  CHECK(records("a,b") == std::vector<Record>{{"a", "b"}});          // no last line break
  CHECK(records(",a,,") == std::vector<Record>{{"", "a", "", ""}});  // empty fields
  CHECK(records("").empty());
  CHECK(records("\n\na\n\n") == std::vector<Record>{{"a"}});  // blank lines are skipped
}

TEST_CASE("csv: quoted fields hold commas, quotes and line breaks") {
  CHECK(records("\"a,b\",c") == std::vector<Record>{{"a,b", "c"}});
  CHECK(records("\"say \"\"hi\"\"\"") == std::vector<Record>{{"say \"hi\""}});
  CHECK(records("\"two\nlines\",x\ny,z") == std::vector<Record>{{"two\nlines", "x"}, {"y", "z"}});
  CHECK(records("\"two\r\nlines\"\r\n") == std::vector<Record>{{"two\r\nlines"}});
  CHECK(records("\"\",\"\"") == std::vector<Record>{{"", ""}});
  CHECK(records("5\" nail,x") == std::vector<Record>{{"5\" nail", "x"}});  // not at the start
}

TEST_CASE("csv: line ends and byte order mark of other systems") {
  CHECK(records("a,b\r\nc,d\r\n") == std::vector<Record>{{"a", "b"}, {"c", "d"}});
  CHECK(records("\xEF\xBB\xBF"
                "a,b\n") == std::vector<Record>{{"a", "b"}});
  CHECK(records("\xEF\xBB\xBF").empty());
}

TEST_CASE("csv: bad quoting is named with its line") {
  CHECK_THROWS_WITH_AS(records("a\nb,\"open\nstill open\n"),
                       "a.csv:2: expected a closing quote before the end", InputError);
  CHECK_THROWS_WITH_AS(records("a\n\"b\" c"),
                       "a.csv:2: expected a comma or the line's end behind a closing quote",
                       InputError);
}

TEST_CASE("csv: a record's line is where it begins") {
  CsvReader reader(LineReader(bytes_of("a\n\n\"b\n\nb\"\nc"), "a.csv"), Delimited::csv);
  std::vector<std::size_t> lines;
  while (reader.next()) lines.push_back(reader.line());
  CHECK(lines == std::vector<std::size_t>{1, 3, 6});
}

TEST_CASE("tsv: a field in quotes with doubled quotes inside is quoted, as pandas writes it") {
  CHECK(records("\"He said \"\"hi\"\" to me\"\t\"\"\"Q\"\" start\"\t\"end \"\"q\"\"\"\t\"\"",
                Delimited::tsv) ==
        std::vector<Record>{{"He said \"hi\" to me", "\"Q\" start", "end \"q\"", ""}});
  CHECK(records("\"a, b\"\tc", Delimited::tsv) == std::vector<Record>{{"a, b", "c"}});
  for (const char* whole : {"\"", "\"\"\"", "\"a\" and \"b\"", "\"\"a\"", "\"a", "a\"", "x \"a\""})
    CHECK(records(whole, Delimited::tsv) == std::vector<Record>{{whole}});
}

TEST_CASE("tsv: every tab separates and other quotes are text") {
  CHECK(records("\"a\tb\"\tc,d\n", Delimited::tsv) == std::vector<Record>{{"\"a", "b\"", "c,d"}});
  CHECK(records("a\t\t\r\n", Delimited::tsv) == std::vector<Record>{{"a", "", ""}});
}
