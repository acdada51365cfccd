// Reads files of settings: TOML without tables.
#pragma once

#include <string>
#include <vector>

namespace ringlet::cli {

struct Setting {
  std::string name;
  std::string value;  // as on the command line
  int line = 0;       // from 1
};

/// The settings of a file by line; an array is several of one name. InputError, with the line, for
/// all that is not `name = value` with a string, a number, true, false or an array of these.
std::vector<Setting> read_settings(const std::string& file);

}  // namespace ringlet::cli
