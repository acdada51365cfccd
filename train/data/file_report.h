// A reader's findings in a file, for one line to the user.
#pragma once

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

namespace ringlet::train {

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
