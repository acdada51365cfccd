// Programs that run in the background of a test, and their remains.
#pragma once

#include <doctest/doctest.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <functional>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "ringlet/core/io/file.h"
#include "ringlet/tests/cli/on_device.h"
#include "ringlet/tests/files.h"

/// A running program; killed with the test.
class Background {
 public:
  Background(const Words& arguments, const std::map<std::string, std::string>& environment = {}) {
    Words command = on_device(arguments);
    std::vector<char*> argv;
    for (std::string& word : command) argv.push_back(word.data());
    argv.push_back(nullptr);
    const std::string out = (folder_ / "out").string();
    const std::string err = (folder_ / "err").string();
    ringlet::write_file(out, "");
    ringlet::write_file(err, "");
    pid_ = ::fork();
    REQUIRE(pid_ >= 0);
    if (pid_ != 0) return;
    for (const auto& [name, value] : environment) ::setenv(name.c_str(), value.c_str(), 1);
    ::dup2(::open(out.c_str(), O_WRONLY | O_APPEND), STDOUT_FILENO);
    ::dup2(::open(err.c_str(), O_WRONLY | O_APPEND), STDERR_FILENO);
    execute(argv.data());
  }
  ~Background() {
    if (ended_) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  Background(const Background&) = delete;
  Background& operator=(const Background&) = delete;

  pid_t pid() const { return pid_; }
  std::string out() const { return ringlet::read_file(folder_ / "out"); }
  std::string err() const { return ringlet::read_file(folder_ / "err"); }
  void signal(int number) const { ::kill(pid_, number); }

  /// Its exit code, or 1000 + the signal that ended it; -1 if it does not end in time.
  int wait(double limit_s = 300) {
    int status = 0;
    const auto ended = [&] { return ::waitpid(pid_, &status, WNOHANG) == pid_; };
    if (!until(ended, limit_s)) return -1;
    ended_ = true;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
  }

  /// Whether `condition` became true before the limit.
  static bool until(const std::function<bool()>& condition, double limit_s = 300) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::duration<double>(limit_s);
    while (!condition()) {
      if (std::chrono::steady_clock::now() > deadline) return false;
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
    return true;
  }

  /// Whether standard output contains `text` this often before the limit.
  bool says(const std::string& text, int times = 1) const {
    return until([&] { return count(out(), text) >= times; });
  }

 private:
  TemporaryFolder folder_;
  pid_t pid_ = -1;
  bool ended_ = false;
};

/// The numbers after each "pid ".
inline std::vector<pid_t> pids_in(const std::string& text) {
  std::vector<pid_t> pids;
  for (std::size_t at = 0; (at = text.find("pid ", at)) != text.npos; at += 4)
    pids.push_back(std::stoi(text.substr(at + 4)));
  return pids;
}

/// Whether none of them exists any more (zombies disappear, too, when their parent does).
inline bool all_gone(const std::vector<pid_t>& pids, double limit_s = 60) {
  return Background::until(
      [&] {
        for (const pid_t pid : pids)
          if (::kill(pid, 0) == 0) return false;
        return true;
      },
      limit_s);
}
