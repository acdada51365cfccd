// What a command line was told wrong, in one line.
#pragma once

#include <string>

namespace CLI {
class App;
class ParseError;
}  // namespace CLI

namespace ringlet::cli {

/// Of parsing `app`: the option, argument or subcommand that is unknown, with the one that was
/// perhaps meant; otherwise what CLI11 says.
std::string usage_error(const CLI::App& app, const CLI::ParseError& error);

}  // namespace ringlet::cli
