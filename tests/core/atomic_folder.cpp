#include "ringlet/core/io/atomic_folder.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/syscall.h>

#include <cerrno>
#include <cstdint>
#include <vector>

#include "../files.h"
#include "refused_calls.h"
#include "ringlet/core/base/error.h"
#include "ringlet/core/io/file.h"

using namespace ringlet;
namespace fs = std::filesystem;

namespace {

// renameat2 on a file system without support for flags.
Refusal rename_flags(int error) { return {SYS_renameat2, 4, 0, false, error}; }

// A file system without files that have no name.
Refusal unnamed_files() {
  return {SYS_openat, 2, O_WRONLY | O_TMPFILE | O_CLOEXEC | O_LARGEFILE, true, EOPNOTSUPP};
}

// A rename of the path stored at this address.
std::vector<Refusal> rename_from(const fs::path& path, int error) {
  const auto from = static_cast<std::uint32_t>(reinterpret_cast<std::uintptr_t>(path.c_str()));
  std::vector<Refusal> calls{{SYS_renameat2, 1, from, true, error}};
#ifdef SYS_renameat
  calls.push_back({SYS_renameat, 1, from, true, error});
#endif
#ifdef SYS_rename
  calls.push_back({SYS_rename, 0, from, true, error});
#endif
  return calls;
}

// 0 if body() is refused as it should be.
template <class Body>
int refused(Body body) {
  try {
    body();
  } catch (const InputError& error) {
    const std::string why = ": cannot be put in place: Permission denied";
    return std::string(error.what()).ends_with(why) ? 0 : 1;
  }
  return 2;
}

template <class Body>
std::optional<int> without_rename_flags(int error, Body body) {
  return in_child([&] { return refuse({rename_flags(error)}) ? body() : kNoSeccomp; });
}

struct Base {
  TemporaryFolder base;
  const fs::path model = base / "model";

  void write(const std::string& file, const std::string& text) const {
    AtomicFolder folder(model);
    write_file(folder.path() / file, text);
    folder.commit();
  }
};

}  // namespace

TEST_CASE_FIXTURE(Base, "a folder appears whole or not at all") {
  {
    AtomicFolder dropped(model);
    write_file(dropped.path() / "a", "half");
    CHECK_FALSE(fs::exists(model));
  }
  CHECK(base.entries() == 0);
  for (const char* text : {"first", "second"}) {
    write("a", text);
    CHECK(read_file(model / "a") == text);
  }
  CHECK(base.entries() == 1);
  write_file(base / "file", "x");
  CHECK_THROWS_AS(AtomicFolder(base / "file"), InputError);
  CHECK_THROWS_AS(AtomicFolder(base / "nowhere" / "model"), InputError);
}

TEST_CASE_FIXTURE(Base, "a file of a writer that was killed vanishes, where it has no name") {
  if (!has_unnamed_files()) return;
  const auto is_killed = [&]() -> int {
    AtomicFile table(base / "table.csv");
    table.write(std::string_view("half"));
    _exit(0);  // no cleanup
  };
  REQUIRE(exit_code_of(is_killed) == 0);
  CHECK(base.entries() == 0);
}

TEST_CASE_FIXTURE(Base, "a folder of a writer that was killed is removed, and nothing else") {
  const auto is_killed = [&]() -> int {
    AtomicFolder folder(model), other(base / "other");
    write_file(folder.path() / "a", "half");
    AtomicFile table(base / "table.csv");
    _exit(0);  // no cleanup
  };
  const auto code = in_child([&] { return refuse({unnamed_files()}) ? is_killed() : kNoSeccomp; });
  if (!code) return;
  REQUIRE(*code == 0);
  // Similar names that are not temporary ones.
  for (const char* name :
       {".model", ".model.backup.old", "model.tmp.1", "model.tmp.1.x", "x.tmp.1.2"})
    write_file(base / name, "");
  fs::create_directory(base / ".model.12345");
  fs::create_directory(model);
  REQUIRE(base.entries() == 10);
  remove_unfinished(base.path(),
                    [](const std::string& name) { return name == "model" || name == "table.csv"; });
  CHECK(base.entries() == 8);
  for (const auto& left : fs::directory_iterator(base.path())) {
    const std::string name = left.path().filename().string();
    CHECK_FALSE((name.starts_with(".model.") && name.size() == 13));
    CHECK_FALSE(name.starts_with("table.csv"));
  }
}

TEST_CASE_FIXTURE(Base, "a file system without swaps gets the folder, too") {
  for (const int error : {EINVAL, ENOSYS}) {
    fs::remove_all(model);
    const auto code = without_rename_flags(error, [&] {
      for (const char* text : {"first", "second"}) write(text, text);
      return 0;
    });
    if (!code) return;
    CHECK(*code == 0);
    CHECK(read_file(model / "second") == "second");
    CHECK_FALSE(fs::exists(model / "first"));
    CHECK(base.entries() == 1);
  }
}

TEST_CASE_FIXTURE(Base, "a refusal that has nothing to do with swaps leaves the old folder") {
  write("a", "old");
  const auto code =
      without_rename_flags(EACCES, [&] { return refused([&] { write("a", "new"); }); });
  if (!code) return;
  CHECK(*code == 0);
  CHECK(read_file(model / "a") == "old");
  CHECK(base.entries() == 1);
}

TEST_CASE_FIXTURE(Base,
                  "where a new folder cannot take its place without swaps, the old comes back") {
  write("a", "old");
  const auto code = in_child([&] {
    AtomicFolder folder(model);
    write_file(folder.path() / "a", "new");
    std::vector<Refusal> refusals = rename_from(folder.path(), EACCES);
    refusals.insert(refusals.begin(), rename_flags(EINVAL));
    return refuse(refusals) ? refused([&] { folder.commit(); }) : kNoSeccomp;
  });
  if (!code) return;
  CHECK(*code == 0);
  CHECK(read_file(model / "a") == "old");
}

TEST_CASE_FIXTURE(
    Base, "what was pushed out comes back where nothing took its place, else it is removed") {
  const std::string old = ".model.old.123abc";
  const auto is_model = [](const std::string& name) { return name == "model"; };
  const auto push_out = [&](const char* text) {
    fs::create_directory(base / old);
    write_file(base / old / "a", text);
  };
  push_out("first");
  remove_unfinished(base.path(), is_model);
  CHECK_FALSE(fs::exists(base / old));
  REQUIRE(fs::exists(model));
  CHECK(read_file(model / "a") == "first");
  push_out("second");
  remove_unfinished(base.path(), is_model);
  CHECK_FALSE(fs::exists(base / old));
  CHECK(read_file(model / "a") == "first");
}
