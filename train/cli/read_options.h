// Options about the files of data that a command reads.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "ringlet/train/data/readers.h"

namespace ringlet::cli {

class Command;

/// --columns and --split, of a command that reads one file.
void add_read_options(Command& command, train::ReadOptions& options);
/// --score-scale, too.
void add_score_scale(Command& command, train::ReadOptions& options);

/// Prints a line about each file on stderr. Rows that are of no file have none.
void print_reports(const std::vector<train::FileReport>& reports);

/// An option of a command that reads several files: "VALUE" for all of them, "FILE=VALUE" for one.
class PerFile {
 public:
  /// InputError for two values of one file, and two for all.
  PerFile(std::string option, const std::vector<std::string>& values);

  /// The file's value, or else that of all; nullopt without either.
  std::optional<std::string> of(const std::string& file) const;
  /// Whether of() is the file's alone.
  bool is_own(const std::string& file) const;
  /// Declares that of() has had an effect.
  void use(const std::string& file);
  /// InputError for a value without effect; `files` are those expected: "a file with scores".
  void check_used(const char* files) const;

 private:
  struct Value {
    std::string file, value;  // no file: all
    bool used = false;
  };
  std::size_t find(const std::string& file) const;

  std::string option_;
  std::vector<Value> values_;
};

/// --split, --eval-split and --score-scale, of a command that reads several files.
struct PerFileOptions {
  std::vector<std::string> split, eval_split, score_scale;
};
void add_per_file_options(Command& command, PerFileOptions& options);

}  // namespace ringlet::cli
