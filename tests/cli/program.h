// Runs the built program `ringlet` as a user would.
#pragma once

#include <doctest/doctest.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "ringlet/core/io/file.h"
#include "ringlet/tests/cli/on_device.h"
#include "ringlet/tests/emulated/emulated.h"
#include "ringlet/tests/files.h"

struct Outcome {
  int code = -1;  // exit code, or 1000 + the signal that ended it
  std::string out;
  std::string err;
};

/// Seconds after which a program is ended by SIGALRM. The slowest takes 30 on a quiet machine.
constexpr unsigned kLongestRun = 600;

struct RunOptions {
  std::string input = {};  // standard input
  // The size limit of every file, emulates a full disk. Tensors live in memory files, so allow them
  // 40 MiB.
  rlim_t file_size = RLIM_INFINITY;
  std::string output_to = {};  // standard output goes to this file, unless empty
  int signal = 0;              // sent once `when` is true, if that is within a minute
  bool to_group = false;       // to the program's process group
  std::function<bool()> when = {};
};

/// Without the lines in which programs say that their GPU is emulated.
inline std::string without_notice(std::string text) {
  constexpr const char* kNotice = ringlet::emulated::kNotice;
  for (auto at = text.find(kNotice); at != text.npos; at = text.find(kNotice)) {
    const auto begin = text.rfind('\n', at) + 1;  // 0 in the first line
    text.erase(begin, text.find('\n', at) + 1 - begin);
  }
  return text;
}

inline Outcome run_program(const std::string& program, const Words& arguments,
                           const RunOptions& options = {}) {
  const TemporaryFolder folder;
  ringlet::write_file(folder / "in", options.input);
  const std::string out = options.output_to.empty() ? (folder / "out").string() : options.output_to;
  Words command = on_device(Words{program} + arguments);
  std::vector<char*> argv;
  for (std::string& word : command) argv.push_back(word.data());
  argv.push_back(nullptr);

  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    if (options.to_group) ::setpgid(0, 0);
    const auto redirect = [](const std::string& path, int flags, int to) {
      const int fd = ::open(path.c_str(), flags, 0600);
      if (fd < 0 || ::dup2(fd, to) < 0) ::_exit(126);
    };
    redirect((folder / "in").string(), O_RDONLY, 0);
    redirect(out, O_WRONLY | O_CREAT, 1);
    redirect((folder / "err").string(), O_WRONLY | O_CREAT, 2);
    if (options.file_size != RLIM_INFINITY) {
      const rlimit limit{options.file_size, options.file_size};
      ::setrlimit(RLIMIT_FSIZE, &limit);
    }
    ::alarm(kLongestRun);
    execute(argv.data());
  }
  int status = 0;
  if (options.signal != 0) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::minutes(5);
    while (!options.when() && std::chrono::steady_clock::now() < deadline)
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    ::kill(options.to_group ? -child : child, options.signal);
  }
  REQUIRE_EQ(::waitpid(child, &status, 0), child);
  Outcome outcome;
  outcome.code = WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
  if (options.output_to.empty()) outcome.out = ringlet::read_file(folder / "out");
  outcome.err = without_notice(ringlet::read_file(folder / "err"));
  return outcome;
}

inline Outcome run(const Words& arguments, const RunOptions& options = {}) {
  return run_program(ringlet_program(), arguments, options);
}

/// The program ended with code 2 and printed exactly this line.
inline void check_refused(const Outcome& outcome, const std::string& line) {
  CHECK_EQ(outcome.code, 2);
  CHECK_EQ(outcome.err, "ringlet: " + line + "\n");
  CHECK_EQ(outcome.out, "");
}
inline void check_refused(const Words& arguments, const std::string& line) {
  check_refused(run(arguments), line);
}
