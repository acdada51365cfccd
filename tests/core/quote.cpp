#include "ringlet/core/base/quote.h"

#include <doctest/doctest.h>

using namespace ringlet;

TEST_CASE("text from outside is shown in one line of bounded length") {
  CHECK_EQ(quote("a.weight"), "'a.weight'");
  CHECK_EQ(quote(""), "''");
  CHECK_EQ(quote("two\nlines\r\x1b[31m\x7f"), "'two?lines??[31m?'");
  CHECK_EQ(one_line("a\xC2\x85z"), "a??z");                  // a line break beyond ASCII
  CHECK_EQ(one_line("PAR1\x15\xFF\xE9z\xC3"), "PAR1???z?");  // not UTF-8
  CHECK_EQ(one_line("na\u00EFve \u65E5\u672C"), "na\u00EFve \u65E5\u672C");
  CHECK_EQ(one_line("a\x80z \xE6\x97 \xC0\xAF \xED\xA0\x80 \xF4\x90\x80\x80 \xFF"),
           "a?z ?? ?? ??? ???? ?");  // no UTF-8
  CHECK_EQ(shown(std::string(80, 'a')), std::string(80, 'a'));
  CHECK_EQ(shown(std::string(81, 'a')), std::string(77, 'a') + "...");
  CHECK_EQ(shown("abcdef", 5), "ab...");
}

TEST_CASE("no character of UTF-8 is cut") {
  const std::string smile = "\xF0\x9F\x98\x80";
  for (std::size_t before = 70; before <= 80; ++before) {
    const std::string kept = shown(std::string(before, 'a') + smile + std::string(80, 'b'));
    CHECK(kept.size() <= 80);
    const bool whole = kept.find(smile) != std::string::npos;
    CHECK_EQ(whole, before + smile.size() <= 77);
    if (!whole) CHECK_EQ(kept.substr(0, std::min<std::size_t>(before, 77)).find('\xF0'), kept.npos);
    if (!whole && before < 77) CHECK_EQ(kept, std::string(before, 'a') + "...");
  }
  // Invalid bytes are not searched endlessly for the beginning of a character.
  CHECK_EQ(shown(std::string(200, '\x80')).size(), 77);
}
