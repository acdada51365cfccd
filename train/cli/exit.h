// Parsing the command line and running what it asks for.
#pragma once

namespace CLI {
class App;
}

namespace ringlet::cli {

/// Thrown by a command that has said all and ends with this code.
struct Exit {
  int code;
};

/// Parses the arguments and runs the subcommand they name. Returns 0, 2 after a wrong option, what
/// Exit says, or what exit_code() makes of an error.
int run(CLI::App& app, int argc, char** argv);

}  // namespace ringlet::cli
