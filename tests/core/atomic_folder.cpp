#include "ringlet/core/atomic_folder.h"

#include <doctest/doctest.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <optional>

#include "../files.h"
#include "ringlet/core/error.h"
#include "ringlet/core/file.h"

using namespace ringlet;
namespace fs = std::filesystem;

namespace {

// From now on this process's renameat2 fails as on a file system that knows no flags; false where
// the kernel does not filter calls.
bool refuse_rename_flags(int error) {
  const auto jump = [](std::uint32_t value, std::uint8_t otherwise) {
    return sock_filter{BPF_JMP | BPF_JEQ | BPF_K, 0, otherwise, value};
  };
  const auto load = [](std::size_t offset) {
    return sock_filter{BPF_LD | BPF_W | BPF_ABS, 0, 0, static_cast<std::uint32_t>(offset)};
  };
  const auto answer = [](std::uint32_t value) { return sock_filter{BPF_RET | BPF_K, 0, 0, value}; };
  sock_filter code[] = {load(offsetof(seccomp_data, nr)),
                        jump(SYS_renameat2, 3),
                        load(offsetof(seccomp_data, args) + 4 * sizeof(std::uint64_t)),  // flags
                        jump(0, 2),
                        answer(SECCOMP_RET_ALLOW),
                        answer(SECCOMP_RET_ALLOW),
                        answer(SECCOMP_RET_ERRNO | static_cast<std::uint32_t>(error))};
  const sock_fprog program{static_cast<unsigned short>(std::size(code)), code};
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

// Runs body() in a child whose renameat2 fails so; its exit code, none where the kernel does not
// filter calls.
template <class Body>
std::optional<int> without_rename_flags(int error, Body body) {
  constexpr int kNoSeccomp = 77;
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) _exit(refuse_rename_flags(error) ? body() : kNoSeccomp);
  int status = -1;
  REQUIRE(waitpid(child, &status, 0) == child);
  REQUIRE(WIFEXITED(status));
  if (WEXITSTATUS(status) != kNoSeccomp) return WEXITSTATUS(status);
  MESSAGE("skipped: needs seccomp");
  return std::nullopt;
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

TEST_CASE_FIXTURE(Base, "what was killed under construction is removed, and nothing else") {
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    AtomicFolder folder(model), other(base / "other");
    write_file(folder.path() / "a", "half");
    AtomicFile table(base / "table.csv");
    _exit(0);  // as a kill: nobody cleans up
  }
  int status = -1;
  REQUIRE(waitpid(child, &status, 0) == child);
  // Not made here, however alike.
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
  const auto code = without_rename_flags(EACCES, [&] {
    try {
      write("a", "new");
    } catch (const InputError& refused) {
      const std::string why = ": cannot be put in place: Permission denied";
      return std::string(refused.what()).ends_with(why) ? 0 : 1;
    }
    return 2;
  });
  if (!code) return;
  CHECK(*code == 0);
  CHECK(read_file(model / "a") == "old");
  CHECK(base.entries() == 1);
}
