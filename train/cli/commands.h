// The subcommands of the program `ringlet`. Each adds its options and what runs when it is chosen;
// errors are exceptions, which main() turns into one line and an exit code.
#pragma once

namespace CLI {
class App;
}

namespace ringlet::cli {

/// Thrown by a command that has said all and ends with this code.
struct Exit {
  int code;
};

void add_encode(CLI::App& app);
void add_evaluate(CLI::App& app);
void add_explain(CLI::App& app);
void add_info(CLI::App& app);
void add_make_data(CLI::App& app);
void add_mine(CLI::App& app);
void add_reduce(CLI::App& app);
/// Takes the program to run and its arguments off the end of the command line.
void add_run(CLI::App& app, int& argc, char** argv);
void add_search(CLI::App& app);
void add_train(CLI::App& app);

}  // namespace ringlet::cli
