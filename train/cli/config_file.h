// --config: options of a command from a file.
#pragma once

#include <filesystem>

namespace CLI {
class App;
}

namespace ringlet::cli {

/// Adds --config. The file is TOML without tables: a line `name = value` for each option, under its
/// long name without dashes. Values are strings in quotes, numbers, true, false and, for options
/// that may be repeated, arrays of them. Each value passes the option's own checks. An option of
/// the command line replaces the file's. Paths are relative to the working directory, as on the
/// command line. Wrong files are InputError, with the line.
void add_config(CLI::App& command);

}  // namespace ringlet::cli
