// One-line messages for wrong command lines.
#pragma once

#include <string>

namespace CLI {
class App;
class ParseError;
}  // namespace CLI

namespace ringlet::cli {

/// The message for an error of parsing `app`: the unknown option, argument or subcommand, with the
/// one that was perhaps meant; otherwise CLI11's message.
std::string usage_error(const CLI::App& app, const CLI::ParseError& error);

}  // namespace ringlet::cli
