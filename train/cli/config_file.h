// --config: options of a command from a file.
#pragma once

#include <map>
#include <memory>
#include <string>

namespace CLI {
class App;
}

namespace ringlet::cli {

/// The place in the file of each option that it sets: "run.toml:3: ".
using ConfigPlaces = std::map<std::string, std::string>;

/// Adds --config. The file is TOML without tables: a line `name = value` for each option, under its
/// long name without dashes. Values are strings in quotes, numbers, true, false and, for options
/// that may be repeated, arrays of them. Each value passes the option's own checks. An option of
/// the command line replaces the file's. Paths are relative to the working directory, as on the
/// command line. Wrong files are InputError, with the line.
std::shared_ptr<const ConfigPlaces> add_config(CLI::App& command);

}  // namespace ringlet::cli
