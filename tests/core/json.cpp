#include "ringlet/core/io/json.h"

#include <doctest/doctest.h>

#include <limits>

#include "ringlet/core/base/error.h"
#include "ringlet/core/io/json_node.h"

using namespace ringlet;

TEST_CASE("JSON is read and written in its order; numbers keep their type and all digits") {
  const std::string text =
      R"({"b":[1,-2,18446744073709551615,0.1,1e-300],"a":{"t":true,"n":null},"s":"\u00e9\n"})";
  const Json json = Json::parse(text);
  CHECK_EQ(json.dump(),
           "{\"b\":[1,-2,18446744073709551615,0.1,1e-300],\"a\":{\"t\":true,\"n\":null},"
           "\"s\":\"\u00e9\\n\"}");
  CHECK(Json::parse(json.dump()) == json);
  CHECK_EQ(json["b"][2].get<std::uint64_t>(), std::numeric_limits<std::uint64_t>::max());
  CHECK_EQ(json["b"][1].get<std::int64_t>(), -2);
}

TEST_CASE("a JSON value of another type or range is an error") {
  const Json json = Json::parse("[18446744073709551615, -2, 0.5, 300]");
  CHECK_THROWS_AS(json[0].integer(), Error);  // 2^64 - 1 is no std::int64_t
  CHECK_THROWS_AS(json[1].unsigned_integer(), Error);
  CHECK_THROWS_AS(json[2].integer(), Error);
  CHECK_THROWS_AS(json[3].get<std::uint8_t>(), Error);
  CHECK_THROWS_AS(json[3].text(), Error);
  CHECK_THROWS_AS(json[4], Error);
  CHECK_THROWS_AS(json["key"], Error);
}

TEST_CASE("a text that is no JSON is bad input of its file; depth is limited") {
  const std::string deep(2000, '[');
  for (const std::string& wrong : {std::string("{\"a\":}"), std::string("NaN"), deep}) {
    CAPTURE(wrong);
    CHECK_THROWS_AS(Json::parse(wrong, "file.json"), InputError);
    CHECK_FALSE(Json::try_parse(wrong));
  }
  const std::string twice = R"({"a":1,"a":2})";
  CHECK_EQ(Json::parse(twice)["a"].integer(), 2);
  CHECK_THROWS_AS(Json::parse(twice, "file.json", Json::Repeated::refused), InputError);
}

TEST_CASE("a node of JSON names the file and the path of what is wrong") {
  Notes notes;
  const JsonNode node(Json::parse(R"({"a":[1,"x"],"b":7,"c":0})"), "file.json", &notes);
  CHECK_EQ(node.at("a").at(0).integer(), 1);
  CHECK_EQ(node.get_or("absent", 3.0), 3.0);
  CHECK_THROWS_WITH_AS(node.at("a").at(1).integer(),
                       "file.json: a[1]: expected an integer, got \"x\"", InputError);
  CHECK_THROWS_AS(node.at("a").at(2), InputError);
  CHECK_THROWS_AS(node.at("b").at(0), InputError);
  CHECK_THROWS_AS(node.at("b").integer(0, 6), InputError);
  CHECK_THROWS_WITH_AS(node.at("z"), "file.json: expected the key 'z'", InputError);
  node.name_unused();
  CHECK_EQ(notes, Notes{"file.json: 'c'"});
}
