// A child process that cannot outlive its launcher.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "ringlet/comm/stores/socket.h"

namespace ringlet::comm {

struct ProcessOptions {
  std::vector<std::string> command;
  std::map<std::string, std::string> environment = {};  // beside what this process has
  std::vector<int> processors = {};                     // it may use; empty: all
  bool input = false;                                   // it reads our standard input
};

/// Runs in a process group of its own, below a guard that does nothing but outlive the launcher:
/// when the process that started it ends, however that ends, the guard kills the program and all
/// that it has started, sessions of their own included.
class Process {
 public:
  /// InputError "PROGRAM: cannot start: No such file or directory".
  explicit Process(const ProcessOptions& options);
  /// Kills what is left of the group.
  ~Process();
  Process(Process&&) = default;
  Process& operator=(Process&&) = delete;

  int pid() const { return pid_; }  // of the program
  /// Readable once it has ended.
  const Socket& end() const { return end_; }
  const Socket& out() const { return out_; }  // what it writes to standard output
  const Socket& err() const { return err_; }

  /// How it ended, as a shell says it: its exit code, or 128 + the signal. Nothing while it runs.
  std::optional<int> exit_code() const;
  /// "exited with code 3", "was killed by SIGKILL".
  std::string how_it_ended() const;
  /// To the whole group.
  void signal(int number) const;

 private:
  int pid_ = -1;
  int guard_ = -1;  // the program's parent, of whose group both are
  Socket end_;      // the guard's, which ends as the program did
  Socket out_;
  Socket err_;
};

/// From now on grandchildren whose parents have ended become this process's own children.
void adopt_orphans();
/// Kills all children of this process, and theirs, until there are none.
void kill_children();

}  // namespace ringlet::comm
