// audit.jsonl: digests of weights and moments, chained with the rows of the steps between them.
//
//   {"step":0,"audit_steps":10,"arguments":{…},"digest":D}       the first line
//   {"step":10,"rows":"…","state":"…","digest":D}                a link; also at step 0
//   {"step":14,"rows":"…","state":"…","digest":D}                a checkpoint between two links
//   {"step":14,"files":"…","digest":D}                           of that checkpoint's SHA256SUMS
//
// D is the SHA-256 of the latest link's D, or the first line's, and of the line without D. The
// links do not depend on the strategy, on checkpoints or on interruptions.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "ringlet/comm/group.h"
#include "ringlet/core/io/json.h"
#include "ringlet/nn/module.h"
#include "ringlet/train/optimizer/optimizer.h"
#include "ringlet/train/step/trainer_state.h"

namespace ringlet::train {

inline constexpr const char* kAudit = "audit.jsonl";

/// The SHA-256 over the digests of the arena's norm blocks, of parameters and of moments, and over
/// each parameter's count of updates. Ranks digest the blocks that they hold, so that the value
/// depends neither on their number nor on the strategy. Collective over `group`. Error if ranks
/// hold different bits of a block.
std::string state_digest(const nn::Module& module, Optimizer& optimizer, const comm::Group& group);

struct AuditLine {
  std::int64_t step = 0;
  Json json;
  std::string text;  // without its digest
  std::string digest;

  bool has(const char* key) const { return json.contains(key); }
  const std::string& text_of(const char* key) const { return json[key].text(); }
};

/// InputError "FILE:LINE: …" for a line that was changed, cut off or moved.
std::vector<AuditLine> read_audit(const std::filesystem::path& path);

/// The steps of the checkpoints in `output` that `lines` have. InputError if one has other files.
std::vector<std::int64_t> check_checkpoints(const std::filesystem::path& output,
                                            const std::vector<AuditLine>& lines);
/// InputError "step S: …" if a replay with these lines had other rows, weights or moments.
void check_replay(const std::vector<AuditLine>& recorded, const std::vector<AuditLine>& replayed);

/// The writer of audit.jsonl, on rank 0.
class AuditLog {
 public:
  /// Continues the file, for lines that are no links.
  explicit AuditLog(std::filesystem::path path);
  /// Continues the run's file after `step`: later lines are removed. With step 0, or without a
  /// file, it begins anew. InputError if it began with another interval or other arguments.
  AuditLog(std::filesystem::path path, std::int64_t interval, const UpdateArguments& arguments,
           std::int64_t step);

  /// Adds a step's line, with the rows of `task` since the latest link. If the file has one of that
  /// step, InputError for another digest.
  void add_state(const TrainerState& at, const std::string& state, const TrainingTask& task);
  /// Adds the digests of a checkpoint.
  void add_files(std::int64_t step, const std::filesystem::path& checkpoint);
  void add(Json line);
  bool has(const char* key) const;  // in any line

 private:
  bool is_link(const AuditLine& line) const;

  std::filesystem::path path_;
  std::int64_t interval_ = 0;
  std::vector<AuditLine> read_;
  std::int64_t linked_ = 0;  // the latest link's step
  std::string previous_;     // its digest
};

}  // namespace ringlet::train
