#include "ringlet/train/data/rows.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

using namespace ringlet;
using namespace ringlet::train;

namespace {

std::unique_ptr<RowReader> open(std::string_view text) {
  return open_rows(LineReader(bytes_of(text), "a.jsonl"), {});
}

std::string value(std::string_view line, std::string_view key) {
  const auto rows = open(line);
  REQUIRE(rows->next());
  REQUIRE(rows->find(key));
  return std::string(*rows->find(key));
}

}  // namespace

TEST_CASE("jsonl: one object a line, blank lines skipped") {
  const auto rows = open("{\"a\": \"x\"}\n\n  \r\n{\"a\": \"y\"}\r\n");
  REQUIRE(rows->next());
  CHECK_EQ(rows->find("a"), "x");
  CHECK_FALSE(rows->find("b"));
  REQUIRE(rows->next());
  CHECK_EQ(rows->find("a"), "y");
  CHECK_EQ(rows->line(), 4);
  CHECK_FALSE(rows->next());
}

TEST_CASE("jsonl: strings are unescaped, numbers kept as written") {
  CHECK_EQ(value(R"({"a": "tab\t\"quote\" \u00e9 \ud83d\ude00"})", "a"), "tab\t\"quote\" é 😀");
  CHECK_EQ(value(R"({"a": 0.10})", "a"), "0.10");
  CHECK_EQ(value(R"({"a": -1})", "a"), "-1");
  CHECK_EQ(value(R"({"a": 18446744073709551615})", "a"), "18446744073709551615");
}

TEST_CASE("jsonl: only the outermost members are found") {
  const auto rows =
      open(R"({"a": {"b": "inner"}, "c": [1, "x"], "d": null, "b": "outer", "e": true})");
  REQUIRE(rows->next());
  CHECK(rows->columns() == std::vector<std::string>{"a", "c", "d", "b", "e"});
  CHECK_EQ(rows->find("e"), "true");
  for (const char* other : {"a", "c"})
    CHECK_THROWS_WITH_AS(rows->find(other),
                         str("a.jsonl:1: expected a string or a number in '", other, "'").c_str(),
                         InputError);
  CHECK_FALSE(rows->find("d"));
  CHECK_EQ(rows->find("b"), "outer");
}

TEST_CASE("jsonl: malformed lines are named") {
  const auto read_all = [](const std::string& second) {
    const std::string text = "{}\n" + second;  // after an object all lines must be objects
    const auto rows = open(text);
    while (rows->next()) {
    }
  };
  CHECK_THROWS_WITH_AS(read_all("{\"a\": }\n"),
                       "a.jsonl:2: expected a JSON object, malformed at column 7: unexpected '}'",
                       InputError);
  CHECK_THROWS_WITH_AS(read_all("\n\"text\""), "a.jsonl:3: expected a JSON object", InputError);
  for (const char* other : {"[1, 2]", "1", "-1", "0.5", "true", "null"})
    CHECK_THROWS_WITH_AS(read_all(other), "a.jsonl:2: expected a JSON object", InputError);
  CHECK_THROWS_WITH_AS(read_all("{\"a\": 1, \"b\": {\"a\": 2}, \"a\": 3}"),
                       "a.jsonl:2: key 'a' occurs twice", InputError);
  CHECK_THROWS_AS(read_all("{\"a\": 1} {}"), InputError);
  CHECK_THROWS_AS(read_all("{\"a\": 1e999}"), InputError);
  CHECK_THROWS_AS(read_all("{\"a\": \"cut"), InputError);
  CHECK_THROWS_AS(read_all("{\"a\": \"\xFF\"}"), InputError);
  for (const std::string number : {"NaN", "Infinity"})
    CHECK_THROWS_WITH_AS(read_all("{\"a\": " + number + ", \"b\": 1}"),
                         ("a.jsonl:2: expected a number or null at column 7, found " + number +
                          ", which is not JSON")
                             .c_str(),
                         InputError);
  CHECK_THROWS_WITH_AS(read_all("{\"a\": \"\\ud83d\"}"),
                       "a.jsonl:2: expected a JSON object, malformed at column 14: invalid string: "
                       "surrogate U+D800..U+DBFF must be followed by U+DC00..U+DFFF",
                       InputError);
  for (const char* array : {"[{\"a\": 1},", " [", "[\n{\"a\": 1}]", "[\"a\"]"})
    CHECK_THROWS_WITH_AS(open(array),
                         "a.jsonl:1: a JSON array; expected JSON lines, an object each: "
                         "jq -c '.[]' a.jsonl",
                         InputError);
  CHECK_THROWS_AS(read_all(std::string(100'000, '[')), InputError);  // deep, and never closed
}
