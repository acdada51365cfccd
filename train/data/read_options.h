// Options about the rows and columns to read of a file, and what a reader found in it.
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace ringlet::train {

/// (name in the file, name to use instead)
using Renames = std::vector<std::pair<std::string, std::string>>;

struct SplitChoice {
  std::string name = {};  // empty: none
  bool shared = false;    // by several files; those without the column are read as a whole
};

/// The classes 0, 1 and 2.
inline constexpr std::array<std::string_view, 3> kNliLabels{"entailment", "neutral",
                                                            "contradiction"};

/// A score scale for a reader that has no use for scores: any are accepted.
inline constexpr double kAnyScale = 1e300;

struct ReadOptions {
  /// "NAME_IN_FILE=NAME,…", for instance "premise=sentence1,hypothesis=sentence2,gold=label".
  std::string columns = {};
  /// For several files that share `columns`: if set, it receives the renames of columns that the
  /// file lacks; otherwise these are InputError.
  Renames* missing_columns = nullptr;
  /// Classes allowed under `columns`; 0 for any number.
  int num_labels = 0;
  /// Whether an empty text is InputError.
  bool needs_texts = false;
  /// Scores are divided by this and must then lie in [-1, 1]. Unset: 1; 5 for STSB, and in [0, 1].
  std::optional<double> score_scale = {};
  /// The rows to read of a file with a column `split`, which needs it; otherwise InputError.
  SplitChoice split = {};
};

struct FileReport {
  std::string name = {};
  const char* unit = "row";
  std::size_t count = 0;                                          // rows that are used
  std::string split = {};                                         // theirs; empty: none was chosen
  std::vector<std::pair<std::size_t, std::string>> skipped = {};  // rows, and why
  std::vector<std::string> columns = {}, unused = {};             // by their names in the file
  std::string scale = {};                                         // of scores; empty without any
  std::size_t empty_texts = 0;
  std::string note = {};  // at the end of the line
};

/// "a.tsv: 5 rows of split 'dev', 1 skipped (other splits); columns a, b; without use: c; score
/// scale 1; 1 empty text; NOTE". Empty parts are omitted.
std::string describe(const FileReport& report);

}  // namespace ringlet::train
