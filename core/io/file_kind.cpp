#include "ringlet/core/io/file_kind.h"

#include "ringlet/core/base/error.h"

namespace ringlet {
namespace {

using namespace std::string_view_literals;

struct FileKind {
  std::size_t at;  // where in the file
  std::string_view magic;
  const char* what;
  const char* advice;
};

constexpr const char* kToJsonl = "convert it to JSON lines, a row each";
constexpr const char* kToSafeTensors = "convert it to safetensors";

// No text of UTF-8 begins with one of these; the longer ones come first.
constexpr FileKind kKinds[] = {
    {0, "version https://git-lfs.github.com/spec/"sv, "a git-lfs pointer, not the file itself",
     "`git lfs pull` fetches that"},
    {0, "PAR1\x15"sv, "a Parquet file", kToJsonl},
    {0, "ARROW1\0\0"sv, "an Arrow file", kToJsonl},
    {0, "\xFF\xFF\xFF\xFF"sv, "an Arrow stream", kToJsonl},
    {0, "Obj\x01"sv, "an Avro file", kToJsonl},
    {0, "SQLite format 3\0"sv, "an SQLite database", kToJsonl},
    {0, "\xD0\xCF\x11\xE0"sv, "an old spreadsheet or document", "save it as CSV in UTF-8"},
    {257, "ustar\0"sv, "a tar archive", "unpack it with tar -xf"},
    {257, "ustar "sv, "a tar archive", "unpack it with tar -xf"},
    {0, "\x1F\x8B"sv, "a gzip file", "unpack it with gunzip"},
    {4, "1AY&SY"sv, "a bzip2 file", "unpack it with bunzip2"},
    {0,
     "\xFD"
     "7zXZ\0"sv,
     "an xz file", "unpack it with unxz"},
    {0, "\x28\xB5\x2F\xFD"sv, "a zstd file", "unpack it with unzstd"},
    {0, "7z\xBC\xAF\x27\x1C"sv, "a 7z archive", "unpack it"},
    {0, "PK\x03\x04"sv, "a ZIP archive or spreadsheet",
     "unpack it, let the name of an archive end in .zip, or save a spreadsheet as CSV"},
    {0, "\x89HDF\r\n"sv, "an HDF5 file", kToSafeTensors},
    {0, "\x93NUMPY"sv, "a NumPy array", kToSafeTensors},
    {0, "\x80\x02"sv, "a Python pickle", kToSafeTensors},
    {0, "\x80\x03"sv, "a Python pickle", kToSafeTensors},
    {0, "\x80\x04"sv, "a Python pickle", kToSafeTensors},
    {0, "\x80\x05"sv, "a Python pickle", kToSafeTensors},
    {0, "\xFF\xFE\0\0"sv, "UTF-32 text", "convert it with iconv -f UTF-32 -t UTF-8"},
    {0, "\xFF\xFE"sv, "UTF-16 text", "convert it with iconv -f UTF-16 -t UTF-8"},
    {0, "\xFE\xFF"sv, "UTF-16 text", "convert it with iconv -f UTF-16 -t UTF-8"},
};

/// Two ASCII characters in UTF-16, without a byte order mark.
bool is_utf16(std::string_view head, std::size_t zero) {
  const auto ascii = [&](std::size_t i) { return head[i] > '\0' && head[i + 1] == '\0'; };
  if (head.size() < 5 + zero) return false;
  head.remove_prefix(zero);
  return ascii(0) && ascii(2);
}

}  // namespace

void check_kind(std::string_view head, const std::string& name) {
  for (const FileKind& kind : kKinds)
    if (head.size() > kind.at && head.substr(kind.at).starts_with(kind.magic))
      fail_input(name, ": ", kind.what, "; ", kind.advice);
  if (is_utf16(head, 0) || (head.starts_with('\0') && is_utf16(head, 1)))
    fail_input(name, ": UTF-16 text without a byte order mark; convert it with iconv -t UTF-8");
}

}  // namespace ringlet
