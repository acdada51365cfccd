// setp of each type against the order of its values, and selections by predicates.
#include "one_instruction.h"

TEST_SUITE_BEGIN("host");

namespace ringlet::emulated {
namespace {

/// Bits of values, each with a number that orders like the value.
using Ordered = std::vector<std::pair<std::uint64_t, int>>;

struct Comparison {
  const char* name;
  bool (*holds)(int a, int b);
};
const std::vector<Comparison> kComparisons{
    {"eq", [](int a, int b) { return a == b; }}, {"ne", [](int a, int b) { return a != b; }},
    {"lt", [](int a, int b) { return a < b; }},  {"le", [](int a, int b) { return a <= b; }},
    {"gt", [](int a, int b) { return a > b; }},  {"ge", [](int a, int b) { return a >= b; }}};

bool compare(const std::string& name, const std::string& type, std::uint64_t a, std::uint64_t b) {
  return run("setp." + name + '.' + type, {"pred", type, type}, {a, b}) == 1;
}

void check_all(const std::string& type, const Ordered& values) {
  for (const auto& [name, holds] : kComparisons) {
    for (const auto& [a, place_a] : values) {
      for (const auto& [b, place_b] : values) {
        CAPTURE(name + ('.' + type));
        CAPTURE(a);
        CAPTURE(b);
        CHECK(compare(name, type, a, b) == holds(place_a, place_b));
        if (type[0] == 'f')
          CHECK(compare(std::string(name) + 'u', type, a, b) == holds(place_a, place_b));
      }
    }
  }
}

void check_nan(const std::string& type, std::uint64_t nan, std::uint64_t one) {
  const std::vector<std::pair<std::uint64_t, std::uint64_t>> pairs{
      {nan, one}, {one, nan}, {nan, nan}};
  for (const auto& [a, b] : pairs) {
    for (const auto& [name, holds] : kComparisons) {
      CHECK(!compare(name, type, a, b));
      CHECK(compare(std::string(name) + 'u', type, a, b));
    }
    CHECK(compare("nan", type, a, b));
    CHECK(!compare("num", type, a, b));
  }
  CHECK(!compare("nan", type, one, one));
  CHECK(compare("num", type, one, one));
}

}  // namespace

TEST_CASE("integers compare by sign; bits only as equal or not") {
  for (const int width : {16, 32, 64}) {
    const std::string bits_wide = std::to_string(width);
    const std::uint64_t top = std::uint64_t{1} << (width - 1), all = top | (top - 1);
    check_all('s' + bits_wide, {{top, -2}, {all, -1}, {0, 0}, {1, 1}, {top - 1, 2}});
    check_all('u' + bits_wide, {{0, 0}, {1, 1}, {top - 1, 2}, {top, 3}, {all, 4}});
    for (const std::uint64_t a : {std::uint64_t{0}, top}) {
      CHECK(compare("eq", 'b' + bits_wide, a, top) == (a == top));
      CHECK(compare("ne", 'b' + bits_wide, a, top) == (a != top));
    }
  }
}

TEST_CASE("floats compare with denormals, equal zeros and infinities; NaN is unordered") {
  check_all("f32", {{kMinusInf, -3},
                    {bits(-1.0f), -2},
                    {0x80000001, -1},
                    {kMinusZero, 0},
                    {0, 0},
                    {1, 1},
                    {kInf, 2}});
  check_all("f64", {{kTop | kInf64, -3},
                    {bits(-1.0), -2},
                    {kTop | 1, -1},
                    {kTop, 0},
                    {0, 0},
                    {1, 1},
                    {kInf64, 2}});
  check_nan("f32", kNan, bits(1.0f));
  check_nan("f64", kCanonical64, bits(1.0));
}

TEST_CASE("predicates: truth tables, and selections that move bits") {
  const Types two{"pred", "pred", "pred"};
  for (const std::uint64_t a : {0, 1}) {
    for (const std::uint64_t b : {0, 1}) {
      CHECK(run("and.pred", two, {a, b}) == (a & b));
      CHECK(run("or.pred", two, {a, b}) == (a | b));
      CHECK(run("xor.pred", two, {a, b}) == (a ^ b));
    }
    CHECK(run("not.pred", {"pred", "pred"}, {a}) == 1 - a);
    CHECK(run("mov.pred", {"pred", "pred"}, {a}) == a);
    for (const char* type : {"b16", "u16", "s16", "b32", "u32", "s32", "f32", "b64", "u64", "f64"})
      CHECK(run(std::string("selp.") + type, {type, type, type, "pred"}, {0x8001, kCanonical, a}) ==
            (a != 0                              ? 0x8001
             : std::string(type).ends_with("16") ? 0xffff
                                                 : kCanonical));
  }
}

}  // namespace ringlet::emulated

TEST_SUITE_END();
