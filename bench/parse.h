// The options of a bench program.
#pragma once

#include <CLI/CLI.hpp>

#include "ringlet/core/error.h"
#include "ringlet/train/cli/usage.h"

namespace ringlet::bench {

/// False if --help was requested and answered. InputError for invalid options.
inline bool parse(CLI::App& app, int argc, char** argv) {
  try {
    app.parse(argc, argv);
    return true;
  } catch (const CLI::CallForHelp& help) {
    app.exit(help);
    return false;
  } catch (const CLI::ParseError& error) {
    fail_input(cli::usage_error(app, error));
  }
}

}  // namespace ringlet::bench
