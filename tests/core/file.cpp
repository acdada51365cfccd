#include "ringlet/core/file.h"

#include <doctest/doctest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <csignal>
#include <string>

#include "ringlet/core/error.h"

using namespace ringlet;
namespace fs = std::filesystem;

namespace {

/// An empty folder that disappears with the test.
struct Folder {
  fs::path path;
  Folder() {
    std::string name = (fs::temp_directory_path() / "ringlet-file-XXXXXX").string();
    REQUIRE(::mkdtemp(name.data()) != nullptr);
    path = name;
  }
  ~Folder() { fs::remove_all(path); }
  std::size_t entries() const {
    return static_cast<std::size_t>(std::distance(fs::directory_iterator(path), {}));
  }
};

/// No file of this process may grow beyond `nbytes` while this lives: a full disk, without one.
struct FullDisk {
  rlimit before{};
  void (*handler)(int) = std::signal(SIGXFSZ, SIG_IGN);
  explicit FullDisk(rlim_t nbytes) {
    REQUIRE(::getrlimit(RLIMIT_FSIZE, &before) == 0);
    const rlimit small{nbytes, before.rlim_max};
    REQUIRE(::setrlimit(RLIMIT_FSIZE, &small) == 0);
  }
  ~FullDisk() {
    ::setrlimit(RLIMIT_FSIZE, &before);
    std::signal(SIGXFSZ, handler);
  }
};

}  // namespace

TEST_CASE("a file is written whole and mapped back") {
  const Folder folder;
  const fs::path path = folder.path / "a.txt";
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
  const Folder folder;
  const std::string large(std::size_t{1} << 20, 'x');
  {
    AtomicFile file(folder.path / "large");
    file.write("<");
    file.write(large);
    file.write(">");
    file.commit();
  }
  CHECK(read_file(folder.path / "large") == "<" + large + ">");
}

TEST_CASE("an empty file maps to nothing") {
  const Folder folder;
  write_file(folder.path / "empty", "");
  CHECK_EQ(MappedFile(folder.path / "empty").size(), 0);
  CHECK_EQ(read_file(folder.path / "empty"), "");
}

TEST_CASE("a mapping moves and survives its file's name") {
  const Folder folder;
  write_file(folder.path / "a", "text");
  MappedFile first(folder.path / "a");
  MappedFile second(std::move(first));
  fs::remove(folder.path / "a");
  CHECK_EQ(second.text(), "text");
  first = std::move(second);
  CHECK_EQ(first.text(), "text");
}

TEST_CASE("a file without commit leaves what was there") {
  const Folder folder;
  write_file(folder.path / "a", "old");
  {
    AtomicFile file(folder.path / "a");
    file.write("new");
  }
  CHECK_EQ(read_file(folder.path / "a"), "old");
  CHECK_EQ(folder.entries(), 1);
}

TEST_CASE("a full disk is bad input and leaves nothing behind") {
  const Folder folder;
  const FullDisk disk(100'000);
  const std::string text(200'000, 'x');
  CHECK_THROWS_AS(write_file(folder.path / "a", text), InputError);
  CHECK_EQ(folder.entries(), 0);
}

TEST_CASE("a link is followed, its target replaced") {
  const Folder folder;
  write_file(folder.path / "target", "old");
  fs::create_symlink("target", folder.path / "link");
  write_file(folder.path / "link", "new");
  CHECK(fs::is_symlink(folder.path / "link"));
  CHECK_EQ(read_file(folder.path / "target"), "new");
}

TEST_CASE("paths that cannot be read or written are named") {
  const Folder folder;
  const std::string here = folder.path.string();
  const std::string missing = here + "/none/a";
  CHECK_THROWS_WITH_AS(MappedFile{missing},
                       (missing + ": cannot open: No such file or directory").c_str(), InputError);
  CHECK_THROWS_WITH_AS(MappedFile{here}, (here + ": expected a regular file").c_str(), InputError);
  CHECK_THROWS_WITH_AS(write_file(missing, "x"),
                       (missing + ": cannot write: No such file or directory").c_str(), InputError);
  CHECK_THROWS_AS(write_file(here, "x"), InputError);
  CHECK_THROWS_AS(write_file("/dev/null", "x"), InputError);
}
