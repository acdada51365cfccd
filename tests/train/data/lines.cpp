#include "ringlet/train/data/lines.h"

#include <doctest/doctest.h>
#include <sys/stat.h>
#include <zlib.h>

#include <array>
#include <string>
#include <vector>

#include "ringlet/core/io/file.h"
#include "ringlet/tests/files.h"
#include "ringlet/tests/gzip.h"
#include "ringlet/train/data/bytes.h"

using namespace ringlet;
using namespace ringlet::train;

namespace {

std::vector<std::string> all_lines(LineReader reader) {
  std::vector<std::string> lines;
  while (const auto line = reader.next()) lines.emplace_back(*line);
  return lines;
}

/// Returns one byte per read: every line spans many reads.
ByteSource one_by_one(std::string_view text) {
  return [source = bytes_of(text)](std::span<char> into) { return source(into.first(1)); };
}

}  // namespace

TEST_CASE("lines: the same however the bytes arrive") {
  const std::string text = "\xEF\xBB\xBFone\r\n\ntwo\rstill two\nthree";
  const std::vector<std::string> expected{"one", "", "two\rstill two", "three"};
  CHECK(all_lines(LineReader(bytes_of(text), "a")) == expected);
  CHECK(all_lines(LineReader(one_by_one(text), "a")) == expected);
}

TEST_CASE("lines: longer than any buffer") {
  const std::string longest(3'000'000, 'x');
  const std::string text = "a\n" + longest + "\nb\n";
  CHECK(all_lines(LineReader(bytes_of(text), "a")) == std::vector<std::string>{"a", longest, "b"});
}

TEST_CASE("lines: peek looks without stepping") {
  LineReader reader(bytes_of("a\nb"), "a");
  CHECK_EQ(reader.peek(), "a");
  CHECK_EQ(reader.line(), 0);
  CHECK_EQ(reader.next(), "a");
  CHECK_EQ(reader.next(), "b");
  CHECK_EQ(reader.line(), 2);
  CHECK_EQ(reader.peek(), std::nullopt);
  CHECK_EQ(reader.next(), std::nullopt);
}

TEST_CASE("lines: gzip files are unpacked, damaged ones refused") {
  const TemporaryFolder folder;
  std::string text;
  for (int i = 0; i < 20'000; ++i) text += "line " + std::to_string(i * 7919 % 10'007) + "\n";
  write_gzip(folder / "a.gz", text);
  CHECK_EQ(all_lines(LineReader(folder / "a.gz")).size(), 20'000);

  const std::string packed = read_file(folder / "a.gz");
  write_file(folder / "cut.gz", packed.substr(0, packed.size() / 2));
  CHECK_THROWS_AS(all_lines(LineReader(folder / "cut.gz")), InputError);
  std::string damaged = packed;
  damaged[damaged.size() / 2] ^= 0x55;
  write_file(folder / "damaged.gz", damaged);
  CHECK_THROWS_AS(all_lines(LineReader(folder / "damaged.gz")), InputError);
  write_file(folder / "plain.gz", "not packed");
  CHECK_THROWS_WITH_AS(LineReader{folder / "plain.gz"},
                       ((folder / "plain.gz").string() + ": expected a gzip file").c_str(),
                       InputError);
}

TEST_CASE("lines: a file in a ZIP archive is named as if the archive were a folder") {
  const TemporaryFolder folder;
  const std::filesystem::path archive = folder / "snli_1.0.zip";
  std::string text;
  for (int i = 0; i < 20'000; ++i) text += "line " + std::to_string(i * 7919 % 10'007) + "\n";
  write_zip(archive, {{"snli_1.0/", ""},
                      {"snli_1.0/dev.jsonl", text},
                      {"__MACOSX/snli_1.0/dev.jsonl", "not data"},
                      {"snli_1.0/train.jsonl", "one\n"},
                      {"other/train.jsonl", "two\n"}});
  CHECK_EQ(all_lines(LineReader(archive / "snli_1.0/dev.jsonl")).size(), 20'000);
  CHECK_EQ(all_lines(LineReader(archive / "dev.jsonl")).size(), 20'000);
  CHECK((all_lines(LineReader(archive / "other/train.jsonl")) == std::vector<std::string>{"two"}));
  const auto refused = [&](const std::filesystem::path& path, const std::string& found) {
    CHECK_THROWS_WITH_AS(LineReader{path},
                         (archive.string() + ": expected the name of one file in it, as in " +
                          "snli_1.0.zip/FILE, found " + found +
                          "; it has snli_1.0/dev.jsonl, snli_1.0/train.jsonl, other/train.jsonl")
                             .c_str(),
                         InputError);
  };
  refused(archive, "none");
  refused(archive / "train.jsonl", "train.jsonl");  // there are two
  refused(archive / "test.jsonl", "test.jsonl");

  write_zip(folder / "one.zip", {{"a.csv", "a\n"}});
  CHECK((all_lines(LineReader(folder / "one.zip")) == std::vector<std::string>{"a"}));
  const ByteSource source = open_bytes(folder / "one.zip");
  std::array<char, 8> bytes{};
  for (const std::size_t count : {2u, 0u, 0u}) CHECK_EQ(source(bytes), count);
}

TEST_CASE("lines: damaged ZIP archives are refused") {
  const TemporaryFolder folder;
  write_zip(folder / "a.zip", {{"a.csv", std::string(50'000, 'a') + "\n"}});
  const std::string packed = read_file(folder / "a.zip");
  const auto refused = [&](const std::string& bytes) {
    write_file(folder / "b.zip", bytes);
    CHECK_THROWS_AS(all_lines(LineReader(folder / "b.zip")), InputError);
  };
  refused("not an archive");
  refused(packed.substr(0, packed.size() / 2));
  std::string damaged = packed;
  damaged[60] ^= 0x55;
  refused(damaged);
  std::string longer = packed;  // both headers state a byte more than the stream has
  ++longer[22];
  ++longer[longer.find("PK\x01\x02") + 24];
  refused(longer);
}

TEST_CASE("lines: a file of another kind is named, packed or not") {
  const TemporaryFolder folder;
  const std::string parquet = "PAR1\x15\x04", path = (folder / "a.parquet").string();
  const std::string line = ": a Parquet file; convert it to JSON lines, a row each";
  write_file(path, parquet);
  CHECK_THROWS_WITH_AS(LineReader{std::filesystem::path(path)}, (path + line).c_str(), InputError);
  const std::string packed = (folder / "a.gz").string();
  write_gzip(packed, parquet);
  CHECK_THROWS_WITH_AS(LineReader{std::filesystem::path(packed)}, (packed + line).c_str(),
                       InputError);
  for (const char* name : {"b.gz", "b.zip"}) {
    write_file(folder / name, "version https://git-lfs.github.com/spec/v1\n");
    CHECK_THROWS_WITH_AS(LineReader{folder / name},
                         ((folder / name).string() + ": a git-lfs pointer, not the file itself; "
                                                     "`git lfs pull` fetches that")
                             .c_str(),
                         InputError);
  }
}

TEST_CASE("lines: kept inputs are not opened, and belong to one reader") {
  const TemporaryFolder folder;
  const std::filesystem::path pipe = folder / "pipe";
  REQUIRE_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  CHECK(is_read_once(pipe));
  CHECK(is_read_once("-"));
  CHECK(is_read_once("/dev/stdin"));
  CHECK(is_read_once("/dev/fd/63"));
  CHECK_FALSE(is_read_once("/proc/self/status"));  // nor is a file in /dev/shm
  CHECK_FALSE(is_read_once(folder.path()));
  CHECK_FALSE(is_read_once(folder / "none"));
  keep_input(pipe, "a\nb\n");
  for (int reader = 0; reader < 2; ++reader)
    CHECK((all_lines(LineReader(pipe)) == std::vector<std::string>{"a", "b"}));
  CHECK_THROWS_WITH_AS(keep_input(pipe, ""),
                       (pipe.string() + ": can be read once, but two options name it").c_str(),
                       InputError);
  const ByteSource source = open_bytes(pipe);
  release_kept_inputs();
  keep_input(pipe, "c\n");
  std::array<char, 8> read{};
  CHECK_EQ(source(read), 4);
  CHECK_EQ(std::string_view(read.data()), "a\nb\n");
  CHECK((all_lines(LineReader(pipe)) == std::vector<std::string>{"c"}));
}

TEST_CASE("lines: missing files and folders are named") {
  const TemporaryFolder folder;
  const std::string missing = (folder / "none.csv").string();
  CHECK_THROWS_WITH_AS(LineReader{std::filesystem::path(missing)},
                       (missing + ": cannot open: No such file or directory").c_str(), InputError);
  CHECK_THROWS_AS(LineReader{folder.path()}, InputError);
}

TEST_CASE("strip: what Python's str.strip removes") {
  CHECK_EQ(strip("  a b\t\r\n"), "a b");
  CHECK_EQ(strip("\xC2\xA0\xE3\x80\x80"
                 "a\xE2\x80\xA8\x1F"),
           "a");  // U+00A0 U+3000 … U+2028
  CHECK_EQ(strip("\xE2\x80\x8B"
                 "a"),
           "\xE2\x80\x8B"
           "a");  // U+200B is no space
  CHECK_EQ(strip("é"), "é");
  CHECK_EQ(strip(" \n "), "");
  CHECK_EQ(strip("\xFF a \x80"), "\xFF a \x80");  // invalid bytes are kept
}
