// Errors, shown text, kinds of files, a table of recent entries.
#include <doctest/doctest.h>
#include <string>

#include "ringlet/core/base/error.h"
#include "ringlet/core/base/quote.h"
#include "ringlet/core/base/recently_used.h"
#include "ringlet/core/io/file.h"
#include "ringlet/tests/message.h"

using namespace ringlet;
using namespace std::string_literals;

TEST_CASE("a failed check shows both values") {
  CHECK_THROWS_WITH_AS(RINGLET_CHECK_EQ(3, 4, "[matmul] inner sizes differ"),
                       "[matmul] inner sizes differ: 3 != 4", Error);
}

TEST_CASE("bad input is an error of its own kind") {
  CHECK_THROWS_AS(fail_input("data.csv:3: expected 3 columns, found 2"), InputError);
  CHECK_THROWS_AS(fail_input("anything"), Error);
}

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

TEST_CASE("a table of recent entries drops the least recently used") {
  RecentlyUsed<int, int> table(2);
  int made = 0;
  const auto find = [&](int key) { return table.find(key, [&] { return ++made; }); };
  CHECK(find(10) == 1);
  CHECK(find(20) == 2);
  CHECK(find(10) == 1);
  CHECK(find(30) == 3);  // evicts 20
  CHECK(find(10) == 1);
  CHECK(find(20) == 4);  // evicts 30
  CHECK(find(10) == 1);
  CHECK(table.size() == 2);
  table.clear();
  CHECK(find(10) == 5);
}

namespace {

/// The message about a file that begins so; empty if it may be text or weights.
std::string kind(const std::string& head) {
  return message_of<InputError>([&] { check_kind(head, "f"); });
}

}  // namespace

TEST_CASE("kinds of files by their first bytes, and what to do") {
  CHECK_EQ(kind("version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 7\n"),
           "f: a git-lfs pointer, not the file itself; `git lfs pull` fetches that");
  CHECK_EQ(kind("PAR1\x15\x04\x15"), "f: a Parquet file; convert it to JSON lines, a row each");
  CHECK_EQ(kind("\xFF\xFEs\0e\0"s), "f: UTF-16 text; convert it with iconv -f UTF-16 -t UTF-8");
  CHECK(kind("\xFF\xFE\0\0s\0\0\0"s).starts_with("f: UTF-32 text"));
  for (const std::string& text : {"s\0e\0n\0"s, "\0s\0e\0n"s})
    CHECK(kind(text).starts_with("f: UTF-16 text without a byte order mark"));
  CHECK_EQ(kind("\xFD"
                "7zXZ\0\0"s),
           "f: an xz file; unpack it with unxz");
  CHECK_EQ(kind("BZh91AY&SY\x1F"), "f: a bzip2 file; unpack it with bunzip2");
  CHECK_EQ(kind("BZh11AY&SY\x1F"), "f: a bzip2 file; unpack it with bunzip2");
  for (const char protocol : {2, 3, 4, 5})
    CHECK_EQ(kind("\x80"s + protocol + "}"), "f: a Python pickle; convert it to safetensors");
  CHECK(kind("PK\x03\x04\x14").starts_with("f: a ZIP archive or spreadsheet; "));
  std::string tar = "a.csv" + std::string(252, '\0') + "ustar";
  for (const std::string& version : {"\0"
                                     "00"s,
                                     "  \0"s})
    CHECK_EQ(kind(tar + version), "f: a tar archive; unpack it with tar -xf");
}

TEST_CASE("text that begins like another kind is text") {
  for (const char* text : {"", "PAR1 is a name", "PK", "BZhang", "BZh91", "Obj", "7z", "ustar", "a",
                           "version https://example.org\n", "na\xC3\xAFve",
                           "\xEF\xBB\xBF"
                           "a,b"})
    CHECK_EQ(kind(text), "");
  CHECK_EQ(kind("a\0b"s), "");
  CHECK_EQ(kind(std::string(257, 'x') + "ustar"), "");
}
