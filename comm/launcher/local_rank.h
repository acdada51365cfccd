// A rank of this host in one attempt: its process and its output.
#pragma once

#include <chrono>
#include <deque>
#include <filesystem>
#include <fstream>
#include <iosfwd>
#include <list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ringlet/comm/launcher/launcher.h"
#include "ringlet/comm/launcher/process.h"

namespace ringlet::comm {

/// One output stream of one rank, read from a pipe without blocking. It goes to the screen, each
/// line with its rank before it, and to a file.
class RankStream {
 public:
  /// `screen` and `file` may be null and empty. InputError if the file cannot be written. If its
  /// disk is full later, a line to `warnings` reports it and the rank continues without the file.
  RankStream(std::string prefix, std::ostream* screen, const std::filesystem::path& file,
             std::ostream& warnings);

  /// Passes on the available output; false at its end.
  bool pump(int fd);
  /// Passes on a last line that has no newline.
  void finish();
  /// The error that ended a ringlet program: a last line "ringlet: …", held back for show_error().
  /// A program that runs on gets it shown after kHeld. Empty without such a line or a screen.
  const std::string& error() const { return error_; }
  void show_error();
  /// The last lines, oldest first.
  const std::deque<std::string>& tail() const { return tail_; }

 private:
  void pass_on(std::string_view line);

  std::string prefix_;
  std::ostream* screen_;
  std::ostream& warnings_;
  std::filesystem::path path_;
  std::ofstream file_;
  std::string partial_;
  std::string error_;
  std::chrono::steady_clock::time_point error_at_;
  std::deque<std::string> tail_;
};

struct LocalRank {
  int rank;  // in the world
  Process process;
  RankStream out;
  RankStream err;
  std::optional<int> exit_code = {};

  /// Passes on its output; true in the call that finds it ended.
  bool attend();
  /// Shows the errors that ended it.
  void show_errors() {
    out.show_error();
    err.show_error();
  }
};

/// One run of the command on all ranks of this host.
struct Attempt {
  int number;
  int port;                                  // of the ranks' store
  std::string token;                         // empty: that of the environment
  int ranks_at_start;                        // of the job's first attempt
  std::vector<std::vector<int>> processors;  // of each local rank; empty: any
  bool joins = false;                        // the rank replaces one that was killed
};

/// Starts a rank of this host. InputError if the program or a log cannot be opened.
LocalRank start_rank(const LauncherOptions& options, const Attempt& attempt, int local_rank,
                     std::ostream& out, std::ostream& err);

/// The first failure of an attempt.
struct Failure {
  std::string cause;
  std::string culprit;    // the store's client that reported it; empty: unknown
  std::vector<int> done;  // the local ranks that had exited with 0
};

/// Prints which rank was first to fail, the ranks that had exited with 0, and its last lines. Bad
/// input (code 2) is two lines: the rank's and this one; peers with the same error are not shown.
/// Returns that rank's exit code.
int report_failure(const Failure& failure, std::list<LocalRank>& ranks, std::ostream& err);

}  // namespace ringlet::comm
