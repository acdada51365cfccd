// The files that commands read: their options, texts to embed, and inputs that can be read only
// once, pipes and standard input.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "ringlet/comm/group.h"
#include "ringlet/core/base/setting.h"
#include "ringlet/train/data/readers.h"
#include "ringlet/train/data/retrieval.h"

namespace ringlet::cli {

struct Command;

/// --columns and --split, of a command that reads one file.
void add_read_options(Command& command, train::ReadOptions& options);
/// Limits of --score-scale.
inline constexpr Range kScoreScales{1e-300, 1e300};

/// Prints a line about each file on stderr. Rows that are of no file have none.
void print_reports(const std::vector<train::FileReport>& reports);

/// An option of a command that reads several files: "VALUE" for all of them, "FILE=VALUE" for one.
class PerFile {
 public:
  struct Value {
    std::string file, value;  // no file: all
    bool used = false;        // it has had an effect
  };
  /// InputError for two values of one file, and two for all.
  PerFile(std::string option, const std::vector<std::string>& values);

  /// The file's value, or else that of all; null without either.
  Value* find(const std::string& file);
  /// InputError for a value without effect; `files` are those expected: "a file with scores".
  void check_used(const char* files) const;

 private:
  std::string option_;
  std::vector<Value> values_;
};

/// The lines of a file, plain, gzip or in a ZIP archive; "-" is standard input. Every line is a
/// text, an empty one too, so that rows keep their places. White space at both ends stays: a prompt
/// may come before it. InputError for JSON.
std::vector<std::string> read_texts(const std::string& input);
/// The same without ids; of a table the columns text, and _id or id or else numbers from 0.
train::TextsById read_rows(const std::string& input);

/// Whether a file's name is that of a table: .csv, .tsv or .jsonl, perhaps with .gz or .zip.
bool is_table(std::filesystem::path path);
/// The texts that rank 0 has, on all ranks: standard input is its alone, and a file may be.
std::vector<std::string> share(std::vector<std::string> texts, const comm::Group& world);

/// The texts of read_rows but those of white space alone; lines have their numbers from 0 as ids.
/// InputError, beginning with `option`, for a file without texts.
train::TextsById read_documents(const std::string& option, const std::string& input);

/// Reads those of `files` that come only once, on rank 0, and keeps their bytes on all ranks
/// (train/data/bytes.h). Empty names are none. Call it on every rank before the files are opened.
void read_pipes(const std::vector<std::string>& files, const comm::Group& world);

/// The same for one process of a job without a group: InputError if `readers`, its ranks, are
/// several.
void read_pipe(const std::string& option, const std::string& file, int readers);

}  // namespace ringlet::cli
