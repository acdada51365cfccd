// The memory that ranks of one host share.
#include <filesystem>
#include <fstream>

#include "ringlet/tests/cli/background.h"
#include "ringlet/tests/cli/training.h"

TEST_SUITE_BEGIN("host");

namespace fs = std::filesystem;

namespace {

constexpr std::size_t kMiB = std::size_t{1} << 20;

/// The child processes.
std::vector<pid_t> ranks_of(pid_t parent) {
  std::vector<pid_t> children;
  for (const auto& thread : fs::directory_iterator(str("/proc/", parent, "/task"))) {
    std::ifstream file(thread.path() / "children");
    for (pid_t child; file >> child;) children.push_back(child);
  }
  return children;
}

/// Bytes of a process's memory; its own alone are those that no other process maps.
struct Memory {
  std::size_t all = 0, own = 0;
};
Memory memory_of(pid_t pid) {
  std::ifstream file(str("/proc/", pid, "/smaps_rollup"));
  Memory memory;
  std::string key;
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::size_t kib = 0;
    if (!(words >> key >> kib)) continue;
    if (key == "Rss:") memory.all = kib * 1024;
    if (key == "Private_Clean:" || key == "Private_Dirty:") memory.own += kib * 1024;
  }
  return memory;
}

}  // namespace

TEST_CASE("the ranks that --devices starts share one copy of the texts") {
  const TemporaryFolder folder;
  constexpr std::size_t kRows = 192;  // of a MiB each
  const std::string text(kMiB - 16, 'x');
  std::string rows = "sentence1,sentence2,label\n";
  for (std::size_t row = 0; row < kRows; ++row) rows += str(text, ",a dog,", row % 2, '\n');
  ringlet::write_file(folder / "rows.csv", rows);
  const fs::path output = folder / "out";
  const Background training(Words{ringlet_program(), "train"} +
                            str("--model ", ringlet::tests_file("oracles/mpnet"),
                                " --batch 2 --max-steps 4000 --devices 2 ",
                                "--strategy ddp --logging-steps 1 --no-progress --data ",
                                (folder / "rows.csv").string(), " --output ", output.string()));
  const auto trains = [&] {
    return fs::exists(output / "metrics.jsonl") &&
           !column(output / "metrics.jsonl", "loss").empty();
  };
  REQUIRE(Background::until(trains));
  const std::vector<pid_t> ranks = ranks_of(training.pid());
  REQUIRE_EQ(ranks.size(), 2);
  for (const pid_t rank : ranks) {
    const Memory memory = memory_of(rank);
    CAPTURE(training.err());
    CHECK(memory.own > 0);
    CHECK(memory.own < kRows * kMiB / 2);
  }
  CHECK(memory_of(training.pid()).all > kRows * kMiB);  // the copy
}

TEST_SUITE_END();
