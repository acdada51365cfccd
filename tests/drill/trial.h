// One trial of the drill: a small training in which one rank fails at one step.
#pragma once

#include <stdlib.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "ringlet/comm/types.h"
#include "ringlet/core/base/error.h"
#include "ringlet/core/base/names.h"

namespace ringlet::drill {

enum class Fault : std::uint8_t {
  none,
  killed,         // SIGKILL
  killed_saving,  // the same, in the middle of a checkpoint
  stopped,        // SIGSTOP: alive, but silent
  closed_socket,  // its connections break
  skipped,        // leaves a collective out
  other_op,       // calls another one
  other_size,     // calls it with another number of elements
  nan,            // its loss is not a number
  disk_full,      // its part of a checkpoint finds no room
  other_rows      // draws other rows than the other ranks of its model
};
inline constexpr std::array<std::string_view, 11> kFaults{
    "none",     "killed",     "killed_saving", "stopped",   "closed_socket", "skipped",
    "other_op", "other_size", "nan",           "disk_full", "other_rows"};

/// Digits under DDP, or a sentence encoder with a layer or a slice of every layer on each rank.
enum class Job : std::uint8_t { ddp, pipeline, tensor };
inline constexpr EnumNames<Job, 3> kJobs{"job", {"ddp", "pipeline", "tensor"}};

inline constexpr int kRanks = 3;
inline constexpr std::int64_t kSteps = 8;
inline constexpr std::int64_t kSaveSteps = 2;
inline constexpr std::int64_t kMicroBatches = 4;    // of an encoder's step
inline constexpr std::chrono::seconds kTimeout{3};  // of a collective

/// A folder that is removed when the drill ends.
class WorkFolder {
 public:
  WorkFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "ringlet-drill-XXXXXX").string();
    if (mkdtemp(name.data()) == nullptr) fail_input(name, ": cannot make a folder");
    path_ = name;
  }
  ~WorkFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  WorkFolder(const WorkFolder&) = delete;
  WorkFolder& operator=(const WorkFolder&) = delete;
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

struct Trial {
  std::filesystem::path folder;  // checkpoints go to folder/run
  comm::TransportKind transport = comm::TransportKind::shm;
  Fault fault = Fault::none;
  int culprit = 0;      // the rank that fails
  std::int64_t at = 0;  // the step in which it fails, counted from 1
  double point = 0;     // where in its writes to a checkpoint, or in a step: 0 to below 1
  Job job = Job::ddp;

  std::string_view name() const { return kFaults[static_cast<std::size_t>(fault)]; }
  int processes() const { return transport == comm::TransportKind::thread ? 1 : kRanks; }
  /// The rank fails while it saves.
  bool saving() const { return fault == Fault::killed_saving || fault == Fault::disk_full; }
  bool of_encoder() const { return job != Job::ddp; }
  /// The rank of an encoder fails in the forward of this micro-batch.
  std::int64_t micro_batch() const { return static_cast<std::int64_t>(point * kMicroBatches); }
  /// A thread can have some of the faults only, and so can an encoder.
  bool possible() const {
    if (of_encoder())
      return fault == Fault::other_rows ||
             (processes() > 1 &&
              (fault == Fault::killed || fault == Fault::stopped || fault == Fault::closed_socket));
    if (fault == Fault::other_rows) return false;
    return processes() > 1 || (fault >= Fault::skipped && fault <= Fault::nan);
  }
  /// Rank 0 creates the files in their full length. It fails in that in half of its trials.
  bool creating() const { return saving() && culprit == 0 && point < 0.5; }
};

/// The life of one rank: trains to the end, or throws the error that the fault causes. A restarted
/// rank continues from the latest checkpoint, without a fault. Writes folder/fault_at when the
/// fault strikes, and folder/killed_at when a write kills the rank. If rank R comes to the end in
/// spite of the fault, it writes folder/ended_R. After a restart rank 0 writes folder/restarted_at,
/// with the names that it finds in folder/run.
void run_rank(const Trial& trial);

/// The state that every trial must reach: that of the same training without a fault.
struct End {
  std::string parameters;       // as bytes
  std::set<std::string> files;  // below run/
};
End end_of(const Trial& trial);

/// How the launcher saw a trial end.
struct Outcome {
  int code;
  std::string output;               // of the launcher
  std::vector<std::string> errors;  // stderr of each process's first attempt
  double seconds;                   // from the fault to the restart
};
/// Empty, or the first promise that the ranks did not keep.
std::string verdict(const Trial& trial, const Outcome& outcome, const End& undisturbed);

/// The file's bytes; empty without a file.
std::string text_of(const std::filesystem::path& file);

}  // namespace ringlet::drill
