#include "ringlet/core/io/file_kind.h"

#include <doctest/doctest.h>

#include <string>

#include "ringlet/core/base/error.h"

using namespace ringlet;
using namespace std::string_literals;

namespace {

/// The message about a file that begins so; empty if it may be text or weights.
std::string kind(const std::string& head) {
  try {
    check_kind(head, "f");
  } catch (const InputError& error) {
    return error.what();
  }
  return "";
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
