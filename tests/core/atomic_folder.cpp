#include "ringlet/core/atomic_folder.h"

#include <doctest/doctest.h>
#include <unistd.h>

#include "ringlet/core/error.h"
#include "ringlet/core/file.h"

using namespace ringlet;
namespace fs = std::filesystem;

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
