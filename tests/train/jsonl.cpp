#include "ringlet/train/data/jsonl.h"

#include <doctest/doctest.h>

#include <string>

using namespace ringlet;
using namespace ringlet::train;

namespace {

JsonlReader reader_of(std::string_view text) {
  return JsonlReader(LineReader(bytes_of(text), "a.jsonl"));
}

std::string value(std::string_view line, std::string_view key) {
  JsonlReader reader = reader_of(line);
  REQUIRE(reader.next());
  REQUIRE(reader.find(key) != nullptr);
  return reader.find(key)->text;
}

}  // namespace

TEST_CASE("jsonl: one object a line, blank lines skipped") {
  JsonlReader reader = reader_of("{\"a\": \"x\"}\n\n  \r\n{\"a\": \"y\"}\r\n");
  REQUIRE(reader.next());
  CHECK_EQ(reader.find("a")->text, "x");
  CHECK_EQ(reader.find("b"), nullptr);
  REQUIRE(reader.next());
  CHECK_EQ(reader.find("a")->text, "y");
  CHECK_EQ(reader.line(), 4);
  CHECK_FALSE(reader.next());
}

TEST_CASE("jsonl: strings are unescaped, numbers kept as written") {
  CHECK_EQ(value(R"({"a": "tab\t\"quote\" \u00e9 \ud83d\ude00"})", "a"), "tab\t\"quote\" é 😀");
  CHECK_EQ(value(R"({"a": 0.10})", "a"), "0.10");
  CHECK_EQ(value(R"({"a": -1})", "a"), "-1");
  CHECK_EQ(value(R"({"a": 1, "a": 2})", "a"), "2");  // the last one counts
}

TEST_CASE("jsonl: only the outermost members are kept") {
  JsonlReader reader =
      reader_of(R"({"a": {"b": "inner"}, "c": [1, "x"], "d": null, "b": "outer"})");
  REQUIRE(reader.next());
  CHECK_EQ(reader.members().size(), 4);
  CHECK(reader.find("a")->type == JsonlReader::Type::other);
  CHECK(reader.find("c")->type == JsonlReader::Type::other);
  CHECK(reader.find("d")->type == JsonlReader::Type::null);
  CHECK_EQ(reader.find("b")->text, "outer");
}

TEST_CASE("jsonl: malformed lines are named") {
  const auto read_all = [](std::string_view text) {
    JsonlReader reader = reader_of(text);
    while (reader.next()) {
    }
  };
  CHECK_THROWS_WITH_AS(read_all("{}\n{\"a\": }\n"),
                       "a.jsonl:2: expected a JSON object, malformed at column 7", InputError);
  CHECK_THROWS_WITH_AS(read_all("[1, 2]"), "a.jsonl:1: expected a JSON object", InputError);
  CHECK_THROWS_WITH_AS(read_all("\n\"text\""), "a.jsonl:2: expected a JSON object", InputError);
  CHECK_THROWS_AS(read_all("{\"a\": 1} {}"), InputError);
  CHECK_THROWS_AS(read_all("{\"a\": \"cut"), InputError);
  CHECK_THROWS_AS(read_all("{\"a\": \"\xFF\"}"), InputError);
  CHECK_THROWS_AS(read_all(std::string(100'000, '[')), InputError);  // deep, and never closed
}
