// Programs run on the tests' device: `cli_tests --device cuda`.
#pragma once

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <sstream>
#include <string>
#include <vector>

#include "ringlet/core/base/error.h"
#include "ringlet/tests/device.h"

using ringlet::str;

/// The words of a command line. A text is cut at its spaces; words in braces may have some.
struct Words : std::vector<std::string> {
  using vector::vector;
  Words(const char* text) : Words(std::string(text)) {}
  Words(const std::string& text) {
    std::istringstream words(text);
    for (std::string word; words >> word;) push_back(word);
  }
};
inline Words operator+(Words first, const Words& more) {
  first.insert(first.end(), more.begin(), more.end());
  return first;
}

inline bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != text.npos;
}
inline int count(const std::string& text, const std::string& part) {
  int n = 0;
  for (std::size_t at = 0; (at = text.find(part, at)) != text.npos; at += part.size()) ++n;
  return n;
}

/// The program `ringlet`: of this build, or the one in RINGLET_TEST_PROGRAM.
inline std::string ringlet_program() {
  const char* const other = std::getenv("RINGLET_TEST_PROGRAM");
  return other ? other : RINGLET_PROGRAM;
}

/// Whether one of the words, also after those of a launcher, starts a program that takes --device.
inline bool computes(const Words& command) {
  std::string before;
  for (const std::string& word : command) {
#if defined(RINGLET_THROUGHPUT)
    if (word == RINGLET_THROUGHPUT || word == RINGLET_COLLECTIVES) return true;
#endif
    const bool verb = word == "train" || word == "encode" || word == "evaluate";
    if (verb && before == ringlet_program()) return true;
    before = word;
  }
  return false;
}

/// The command, plus the tests' default device if it names none.
inline Words on_device(Words command) {
  const ringlet::Device device = ringlet::default_device();
  const bool names = std::find(command.begin(), command.end(), "--device") != command.end();
  if (device != ringlet::Device{} && !names && computes(command))
    return command + str("--device ", device);
  return command;
}

/// Replaces this process. nohup and background jobs ignore signals, which the program would
/// inherit.
[[noreturn]] inline void execute(char* const* argv) {
  for (const int number : {SIGHUP, SIGINT, SIGQUIT}) ::signal(number, SIG_DFL);
  ::execvp(argv[0], argv);
  ::_exit(127);
}
