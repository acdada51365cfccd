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

}  // namespace

TEST_CASE("a folder appears whole or not at all") {
  const fs::path base = fs::temp_directory_path() / ("ringlet-folder-" + std::to_string(getpid()));
  fs::create_directory(base);
  {
    AtomicFolder dropped(base / "model");
    write_file(dropped.path() / "a", "half");
    CHECK_FALSE(fs::exists(base / "model"));
  }
  CHECK(fs::is_empty(base));
  for (const char* text : {"first", "second"}) {
    AtomicFolder folder(base / "model");
    write_file(folder.path() / "a", text);
    folder.commit();
    CHECK(read_file(base / "model" / "a") == text);
  }
  CHECK(std::distance(fs::directory_iterator(base), {}) == 1);
  write_file(base / "file", "x");
  CHECK_THROWS_AS(AtomicFolder(base / "file"), InputError);
  CHECK_THROWS_AS(AtomicFolder(base / "nowhere" / "model"), InputError);
  fs::remove_all(base);
}

TEST_CASE("a file system without swaps gets the folder, too") {
  for (const int error : {EINVAL, ENOSYS}) {
    const fs::path base =
        fs::temp_directory_path() / ("ringlet-folder-" + std::to_string(getpid()));
    fs::create_directory(base);
    const pid_t child = fork();
    REQUIRE(child >= 0);
    if (child == 0) {
      if (!refuse_rename_flags(error)) _exit(77);
      for (const char* text : {"first", "second"}) {
        AtomicFolder folder(base / "model");
        write_file(folder.path() / text, text);
        folder.commit();
      }
      _exit(0);
    }
    int status = -1;
    REQUIRE(waitpid(child, &status, 0) == child);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 77) {
      MESSAGE("skipped: needs seccomp");
    } else {
      CHECK(status == 0);
      CHECK(read_file(base / "model" / "second") == "second");
      CHECK_FALSE(fs::exists(base / "model" / "first"));
      CHECK(std::distance(fs::directory_iterator(base), {}) == 1);
    }
    fs::remove_all(base);
  }
}

TEST_CASE("a refusal that has nothing to do with swaps leaves the old folder") {
  const fs::path base = fs::temp_directory_path() / ("ringlet-folder-" + std::to_string(getpid()));
  fs::create_directory(base);
  {
    AtomicFolder folder(base / "model");
    write_file(folder.path() / "a", "old");
    folder.commit();
  }
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    if (!refuse_rename_flags(EACCES)) _exit(77);
    try {
      AtomicFolder folder(base / "model");
      write_file(folder.path() / "a", "new");
      folder.commit();
    } catch (const InputError& refused) {
      _exit(std::string(refused.what()).ends_with(": cannot be put in place: Permission denied")
                ? 0
                : 1);
    }
    _exit(2);
  }
  int status = -1;
  REQUIRE(waitpid(child, &status, 0) == child);
  if (WIFEXITED(status) && WEXITSTATUS(status) == 77) {
    MESSAGE("skipped: needs seccomp");
  } else {
    CHECK(status == 0);
    CHECK(read_file(base / "model" / "a") == "old");
    CHECK(std::distance(fs::directory_iterator(base), {}) == 1);
  }
  fs::remove_all(base);
}
