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
  std::map<std::string, std::string> environment = {};  // in addition to this process's
  std::vector<int> processors = {};                     // that it may use; empty: all
  bool input = false;                                   // it reads our standard input
};

/// Runs the program in a separate process group, below a guard process. When the launcher ends, for
/// any reason, the guard kills the program and all its descendants, also those in other sessions.
class Process {
 public:
  /// InputError "PROGRAM: cannot start: No such file or directory".
  explicit Process(const ProcessOptions& options);
  /// Kills the remaining processes of the group.
  ~Process();
  Process(Process&&) = default;
  Process& operator=(Process&&) = delete;

  int pid() const { return pid_; }  // of the program
  /// Readable once it has ended.
  const Socket& end() const { return end_; }
  Socket& out() { return out_; }  // its standard output
  Socket& err() { return err_; }

  /// The exit code as a shell reports it: the program's, or 128 + the signal. Nothing while it
  /// runs.
  std::optional<int> exit_code() const;
  /// The signal that killed it; 0: it exited.
  int killed_by() const;
  /// "exited with code 3", "was killed by SIGKILL".
  std::string how_it_ended() const;
  /// Sends it to the whole group.
  void signal(int number) const;

 private:
  int pid_ = -1;
  int guard_ = -1;  // the program's parent, and the leader of their group
  Socket end_;      // the guard's, which ends as the program did
  Socket out_;
  Socket err_;
};

/// From now on, grandchildren become children of this process when their parents end. Error if the
/// kernel does not list the children that kill_children() has to kill.
void adopt_orphans();
/// Kills all children of this process, and theirs, until none is left. Allocates nothing. To be
/// called by the main thread, which alone may start children and adopts the others.
void kill_children();

}  // namespace ringlet::comm
