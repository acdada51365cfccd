// A file of options, as of --config.
#pragma once

#include <string>
#include <vector>

namespace ringlet::cli {

/// A line `name = value` of a file of options.
struct Setting {
  std::string name;   // an option's long name, without dashes
  std::string value;  // as on the command line
  int line = 0;       // from 1
};

/// The settings of a file by line; an array is several of one name. The file is TOML without
/// tables. Values are strings in quotes, numbers, true, false and arrays of them. Wrong files are
/// InputError, with the line. Paths are relative to the working directory, as on the command line.
std::vector<Setting> read_settings(const std::string& file);

}  // namespace ringlet::cli
