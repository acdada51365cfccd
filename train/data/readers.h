// From files to data sets: SNLI, MultiNLI, the STS benchmark and the user's own tables.
//
//   nli      sentence1, sentence2, gold_label (JSON lines, or a table with a header); entailment 0,
//            neutral 1, contradiction 2; rows whose gold_label is "-" are skipped and counted.
//   stsb     sentence1, sentence2, score from 0 to 5, stored as score / 5. Either three CSV fields
//            without a header, or the original's tab separated genre, file, year, id, score,
//            sentence1, sentence2 with possible extra fields, or a header that has genre and score.
//   columns  sentence1, sentence2 and a label or a score or neither; or anchor, positive and
//            perhaps negative, negative_1, …; or sentence alone. Labels are classes from 0, true or
//            false, or the names of nli's; "-" and -1 are skipped and counted. Other columns are
//            ignored.
//
// Texts are stripped as in Sentence Transformers. Every mistake is InputError in one line with its
// place: "FILE:LINE: expected …, found …".
#pragma once

#include <filesystem>
#include <string>

#include "ringlet/train/data/dataset.h"
#include "ringlet/train/data/rows.h"

namespace ringlet::train {

struct ReadOptions {
  /// "NAME_IN_FILE=NAME,…", for instance "premise=sentence1,hypothesis=sentence2,gold=label".
  std::string columns;
  /// For several files that share `columns`: if set, it receives the renames of columns that the
  /// file lacks; otherwise these are InputError.
  Renames* missing_columns = nullptr;
  /// Classes allowed under `columns`; 0 for any number.
  int num_labels = 0;
  /// Whether an empty text is InputError.
  bool needs_texts = false;
  /// Scores are divided by this and must then lie in [-1, 1] (STSB: 5, and in [0, 1]).
  double score_scale = 1;
};

/// Reads a file; plain, gzip, or in a ZIP archive. The data set is named after it.
TextDataset read_dataset(const std::filesystem::path& path, const ReadOptions& options = {});
/// The same from any source of lines.
TextDataset read_dataset(LineReader lines, const ReadOptions& options = {});

}  // namespace ringlet::train
