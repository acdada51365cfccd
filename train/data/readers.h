// From files to data sets: SNLI, MultiNLI, the STS benchmark and the user's own tables.
//
//   nli      sentence1, sentence2, gold_label (JSON lines, or a table with a header); entailment 0,
//            neutral 1, contradiction 2; rows whose gold_label is "-" or -1 are skipped and
//            counted.
//   stsb     sentence1, sentence2, score from 0 to 5, stored as score / 5. Either three CSV fields
//            without a header, or the original's tab separated genre, file, year, id, score,
//            sentence1, sentence2 with possible extra fields, or a header that has genre and score.
//            Scores that all lie in [0, 1] are InputError unless the options have a scale.
//   columns  sentence1, sentence2, perhaps sentence3, …, and a label or a score or neither; or
//            anchor, positive and perhaps negative, negative_1 (or negative1), …; or sentence
//            alone. Labels are classes from 0, true or false, or the names of nli's. Numbered
//            columns are taken by their numbers, from 0 or 1 on; a gap is InputError.
//
// With a column `split` the rows of one split are read. Every other column is without use and in
// the report. InputError for two columns of one name, and for a JSON object with a column that
// would be used if the first object had it.
//
// Texts stay as they are; labels and numbers are stripped. Every mistake is InputError in one line
// with its place: "FILE:LINE: expected …, found …".
#pragma once

#include <filesystem>

#include "ringlet/train/data/dataset.h"
#include "ringlet/train/data/read_options.h"

namespace ringlet::train {

class LineReader;

/// Reads a file; plain, gzip, or in a ZIP archive. The data set is named after it.
TextDataset read_dataset(const std::filesystem::path& path, const ReadOptions& options = {});
/// The same from any source of lines.
TextDataset read_dataset(LineReader lines, const ReadOptions& options = {});

}  // namespace ringlet::train
