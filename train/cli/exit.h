// The one place where errors become exit codes.
#pragma once

namespace CLI {
class App;
}

namespace ringlet::cli {

/// Parses the arguments and runs the subcommand they name. Returns 0; or 2 after a wrong option or
/// InputError and 1 after any other error, each told in one line on stderr.
int run(CLI::App& app, int argc, char** argv);

}  // namespace ringlet::cli
