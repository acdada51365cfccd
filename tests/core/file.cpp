#include "ringlet/core/io/file.h"

#include <doctest/doctest.h>
#include <string>

#include "ringlet/core/base/error.h"
#include "ringlet/tests/files.h"

using namespace ringlet;
namespace fs = std::filesystem;

TEST_CASE("a file is written whole and mapped back") {
  const TemporaryFolder folder;
  const fs::path path = folder / "a.txt";
  {
    AtomicFile file(path);
    file.write("one ");
    file.write("two");
    CHECK_EQ(file.size(), 7);
    CHECK_FALSE(fs::exists(path));  // not before commit
    file.commit();
    CHECK_THROWS_AS(file.write("three"), Error);
  }
  const MappedFile mapped(path);
  CHECK_EQ(mapped.text(), "one two");
  CHECK_EQ(mapped.size(), 7);
  CHECK_EQ(mapped.bytes()[4], std::byte{'t'});
  CHECK_EQ(folder.entries(), 1);
}

TEST_CASE("writes larger than the buffer keep their order") {
  const TemporaryFolder folder;
  const std::string large(std::size_t{1} << 20, 'x');
  {
    AtomicFile file(folder / "large");
    file.write("<");
    file.write(large);
    file.write(">");
    file.commit();
  }
  CHECK(read_file(folder / "large") == "<" + large + ">");
}

TEST_CASE("sync finds a full disk before the first of several files is committed") {
  const TemporaryFolder folder;
  {
    const FullDisk disk(1000);
    AtomicFile small(folder / "small");
    AtomicFile large(folder / "large");
    small.write("fits");
    large.write(std::string(2000, 'x'));  // still in the buffer
    small.sync();
    CHECK_THROWS_AS(large.sync(), InputError);
  }
  CHECK_EQ(folder.entries(), 0);
}

TEST_CASE("an empty file maps to nothing") {
  const TemporaryFolder folder;
  write_file(folder / "empty", "");
  CHECK_EQ(MappedFile(folder / "empty").size(), 0);
  CHECK_EQ(read_file(folder / "empty"), "");
}

TEST_CASE("a mapping moves and survives its file's name") {
  const TemporaryFolder folder;
  write_file(folder / "a", "text");
  MappedFile first(folder / "a");
  MappedFile second(std::move(first));
  fs::remove(folder / "a");
  CHECK_EQ(second.text(), "text");
  first = std::move(second);
  CHECK_EQ(first.text(), "text");
}

TEST_CASE("a file without commit leaves what was there") {
  const TemporaryFolder folder;
  write_file(folder / "a", "old");
  {
    AtomicFile file(folder / "a");
    file.write("new");
  }
  CHECK_EQ(read_file(folder / "a"), "old");
  CHECK_EQ(folder.entries(), 1);
}

TEST_CASE("a full disk is bad input and leaves nothing behind") {
  const TemporaryFolder folder;
  const FullDisk disk(100'000);
  const std::string text(200'000, 'x');
  CHECK_THROWS_AS(write_file(folder / "a", text), InputError);
  CHECK_EQ(folder.entries(), 0);
}

TEST_CASE("a link is followed, its target replaced") {
  const TemporaryFolder folder;
  write_file(folder / "target", "old");
  fs::create_symlink("target", folder / "link");
  write_file(folder / "link", "new");
  CHECK(fs::is_symlink(folder / "link"));
  CHECK_EQ(read_file(folder / "target"), "new");
}

TEST_CASE("folders are made, listed in order and removed") {
  const TemporaryFolder folder;
  const fs::path made = folder / "a/b";
  CHECK_FALSE(folder_exists(made));
  make_folders(made);
  make_folders(made);  // it already exists
  CHECK(folder_exists(made));
  for (const char* name : {"z", "x", "y"}) write_file(made / name, "");
  CHECK(list_folder(made) == std::vector<fs::path>{made / "x", made / "y", made / "z"});
  CHECK(path_exists(made / "x"));
  CHECK_FALSE(folder_exists(made / "x"));
  CHECK(list_folder(made / "x").empty());
  CHECK(list_folder(folder / "none").empty());
  remove_path(folder / "a");
  remove_path(folder / "a");
  CHECK_FALSE(path_exists(folder / "a"));

  write_file(folder / "file", "");
  const std::string below = (folder / "file/x").string();
  CHECK_FALSE(path_exists(below));
  CHECK_THROWS_WITH_AS(make_folders(below),
                       (below + ": cannot make the folder: Not a directory").c_str(), InputError);
  const std::string name = (folder / std::string(300, 'x')).string();
  const std::string line = name + ": cannot look at it: File name too long";
  CHECK_THROWS_WITH_AS(path_exists(name), line.c_str(), InputError);
  CHECK_THROWS_WITH_AS(folder_exists(name), line.c_str(), InputError);
  CHECK_THROWS_WITH_AS(list_folder(name), line.c_str(), InputError);
}

TEST_CASE("paths that cannot be read or written are named") {
  const TemporaryFolder folder;
  const std::string here = folder.path().string();
  const std::string missing = here + "/none/a";
  CHECK_THROWS_WITH_AS(MappedFile{missing},
                       (missing + ": cannot open: No such file or directory").c_str(), InputError);
  CHECK_THROWS_WITH_AS(MappedFile{here}, (here + ": expected a regular file").c_str(), InputError);
  CHECK_THROWS_WITH_AS(write_file(missing, "x"),
                       (missing + ": cannot write: No such file or directory").c_str(), InputError);
  CHECK_THROWS_AS(write_file(here, "x"), InputError);
  CHECK_THROWS_AS(write_file("/dev/null", "x"), InputError);
}
