// Reads files of settings: a subset of TOML that remembers lines.
#pragma once

#include <string>
#include <vector>

namespace ringlet::cli {

struct Setting {
  std::string name;
  std::vector<std::string> values;  // one, or those of an array, at least one
  int line = 0;                     // from 1
};

/// The settings of a file in its order. InputError, with the line, for anything but comments and
/// `name = value` with a string, a number, true, false or an array of these.
std::vector<Setting> read_settings(const std::string& file);

}  // namespace ringlet::cli
