// The parsing of a command line, with one-line messages.
#pragma once

namespace CLI {
class App;
}

namespace ringlet::cli {

/// Parses the arguments and runs the subcommand they name. False if --help or --version was
/// requested and answered. InputError for invalid options: the unknown option, argument or
/// subcommand, with the one that was perhaps meant; otherwise CLI11's message.
bool parse(CLI::App& app, int argc, const char* const* argv);

}  // namespace ringlet::cli
